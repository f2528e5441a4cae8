"""The commands of the checkout on incomplete machines."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

FAKE_PYTHON = """#!/bin/sh
# Says that it is new enough, and cannot make environments, as Debian's without python3-venv.
case "$*" in
*version_info*) exit 0 ;;
*venv*) mkdir -p .venv/bin; exit 1 ;;
esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A directory with the Makefile and its dependencies, without an environment."""
    for name in ("Makefile", "pyproject.toml", "requirements-dev.txt"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def make(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # The tests themselves may run under make, with flags that must not apply here.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    command = ["make", *arguments]
    return subprocess.run(command, check=False, cwd=directory, env=environment, text=True, capture_output=True)


def test_make_without_a_target_describes_every_target() -> None:
    targets = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert targets

    listing = make(ROOT).stdout

    assert re.findall(r"^  make (\S+) +\S", listing, re.MULTILINE) == targets[1].split()


def test_the_error_names_a_missing_python(checkout: Path) -> None:
    answer = make(checkout, "test", "PYTHON=python9.9")

    assert answer.returncode != 0
    assert "python9.9 is missing or older than Python 3.11" in answer.stderr


def test_the_error_explains_a_missing_venv_module(checkout: Path) -> None:
    python = checkout / "python"
    python.write_text(FAKE_PYTHON)
    python.chmod(0o755)

    answer = make(checkout, "test", f"PYTHON={python}")

    assert answer.returncode != 0
    assert "apt install python3-venv" in answer.stderr
    assert not (checkout / ".venv").exists()


def test_nothing_is_installed_twice(checkout: Path) -> None:
    stamp = checkout / ".venv" / ".installed"
    stamp.parent.mkdir()
    stamp.touch()

    assert "pip install" not in make(checkout, "--dry-run", "lint").stdout


def test_new_pins_are_installed(checkout: Path) -> None:
    stamp = checkout / ".venv" / ".installed"
    stamp.parent.mkdir()
    stamp.touch()
    os.utime(stamp, (0, 0))

    assert "pip install" in make(checkout, "--dry-run", "lint").stdout
