"""``make soak``, for a second."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize(
    ("database", "broker"),
    [
        pytest.param("sqlite", "embedded", marks=pytest.mark.only_on("sqlite"), id="sqlite"),
        pytest.param("mariadb", "redis", marks=pytest.mark.only_on("mariadb"), id="mariadb"),
    ],
)
def test_the_soak_runs_to_its_end(database: str, broker: str) -> None:
    options = ["--minutes", "0.01", "--database", database, "--broker", broker, "--seed", "1"]

    run = subprocess.run(
        [sys.executable, "-m", "tests.faults.soak", *options], check=False, capture_output=True, text=True
    )

    assert run.returncode == 0, run.stdout + run.stderr
    assert "Nothing is broken." in run.stdout
