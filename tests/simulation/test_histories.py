"""Histories keep the promises of delivery, and a seed repeats one exactly."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys

import pytest

from .__main__ import main
from .histories import outcome_of, run_in_processes, story_of
from .kept import KEPT
from .plan import plan_of
from .shrinking import shrunk

SEEDS = range(1, 9)
SECONDS = 120

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


@pytest.mark.parametrize("fault", KEPT)
def test_a_history_that_broke_a_promise_once_keeps_all(fault):
    outcome = outcome_of(KEPT[fault])

    assert not outcome.text, "\n".join(story_of(KEPT[fault]))


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


@pytest.mark.long
@pytest.mark.timeout(600)
def test_new_histories_keep_the_promises(capsys):
    for total in run_in_processes(secrets.randbelow(10**12), seconds=SECONDS):
        if total.broken:
            break

    with capsys.disabled():
        print(f"\n{total}")
    assert total.histories
    if total.broken:
        outcome = total.broken[0]
        plan = shrunk(plan_of(outcome.seed), outcome.invariant)
        pytest.fail("\n".join([outcome.text, str(plan), *story_of(plan)]))
