"""``make soak``, for a second."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.timeout(600)


@pytest.mark.only_on("sqlite")
def test_the_soak_runs_to_its_end() -> None:
    options = ["--minutes", "0.01", "--database", "sqlite", "--broker", "embedded", "--seed", "1"]

    run = subprocess.run(
        [sys.executable, "-m", "tests.faults.soak", *options], check=False, capture_output=True, text=True
    )

    assert run.returncode == 0, run.stdout + run.stderr
    assert "Nothing is broken." in run.stdout


@pytest.mark.only_on("sqlite")
def test_a_soak_without_its_servers_is_not_judged() -> None:
    options = ["--minutes", "0.01", "--database", "sqlite", "--broker", "redis"]

    run = subprocess.run(
        [sys.executable, "-m", "tests.faults.soak", *options],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": ""},
    )

    assert run.returncode == 3, run.stdout + run.stderr
    assert "Not judged: ServerMissingError: " in run.stdout
    assert "broken" not in run.stdout
