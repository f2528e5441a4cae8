"""The tests of projects with other owners, each in its own process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ..support.databases import URL_VARIABLE

ROOT = Path(__file__).parents[2]


def run(project: str, database: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("DJANGO_", "PYTEST_"))}
    options = [f"--ds=tests.owners.{project}.settings", f"--database={database}", "-p", "no:cacheprovider"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", f"tests/owners/{project}", *options],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


@pytest.mark.only_on("sqlite")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("project", ["organizations", "emails"])
def test_a_project_with_its_own_owners_passes(request: pytest.FixtureRequest, project: str) -> None:
    done = run(project, request.config.getoption("database"))

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.only_on("sqlite")
@pytest.mark.parametrize("project", ["organizations", "emails"])
def test_the_migrations_fit_every_owner_model(project: str) -> None:
    # A database of its own, because the tests' has the tables of other owners.
    environment = {**os.environ, URL_VARIABLE: "sqlite://:memory:"}
    environment["DJANGO_SETTINGS_MODULE"] = f"tests.owners.{project}.settings"
    command = [sys.executable, "-m", "django", "makemigrations", "--check", "--dry-run"]

    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=100, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
