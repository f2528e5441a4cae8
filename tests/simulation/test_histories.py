"""Histories keep the promises of delivery, and a seed repeats one exactly."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from .__main__ import main
from .histories import outcome_of, story_of
from .plan import plan_of

SEEDS = range(1, 9)

PRINT_DIGEST = """
import django
django.setup()
from tests.simulation.histories import outcome_of
from tests.simulation.plan import plan_of
print(*(outcome_of(plan_of(seed)).digest for seed in (3, 4, 5)))
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_a_history_keeps_the_promises(seed):
    outcome = outcome_of(plan_of(seed))

    assert not outcome.text, "\n".join(story_of(plan_of(seed)))


def test_histories_send_requests():
    assert sum(outcome_of(plan_of(seed)).requests for seed in SEEDS) > 50


def test_the_command_tells_the_story_of_a_seed(capsys):
    assert main(["--seed", "3"]) == 0

    assert "worker 1: request 1 of dlv_" in capsys.readouterr().out


def test_the_command_counts_histories(capsys):
    assert main(["--histories", "3", "--from", "1", "--processes", "1", "--first"]) == 0

    assert capsys.readouterr().out.startswith("3 histories (")


def test_a_seed_repeats_a_history_whatever_the_order_of_hashes():
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    digests = {
        subprocess.run(
            [sys.executable, "-c", PRINT_DIGEST],
            env={**environment, "PYTHONHASHSEED": hash_seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for hash_seed in ("1", "2", "3")
    }

    assert len(digests) == 1
