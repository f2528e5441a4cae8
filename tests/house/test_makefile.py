"""The Makefile, also on incomplete machines."""

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
    """A repository with the Makefile, its older dependencies, and a badly formatted module, without an environment."""
    for name in ("Makefile", "pyproject.toml", "requirements-dev.txt"):
        shutil.copy(ROOT / name, tmp_path)
        os.utime(tmp_path / name, (1, 1))
    (tmp_path / "module.py").write_text("x = [1,2]\n")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    subprocess.run(["git", "add", "module.py"], check=True, cwd=tmp_path)
    return tmp_path


def make(directory: Path, *arguments: str) -> str:
    """Return what make printed. Raises CalledProcessError if it failed."""
    # The tests themselves may run under make, with flags that must not apply here.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    command = ["make", "--no-print-directory", *arguments]
    return subprocess.run(command, check=True, cwd=directory, env=environment, text=True, capture_output=True).stdout


def test_make_without_a_target_describes_every_target() -> None:
    targets = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert targets

    listing = make(ROOT)

    assert re.findall(r"^  make (\S+) +\S", listing, re.MULTILINE) == targets[1].split()
    assert listing == make(ROOT, "help")


def test_the_error_names_a_missing_python(checkout: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        make(checkout, "test", "PYTHON=python9.9")

    assert "python9.9 is missing or older than Python 3.11" in failed.value.stderr


def test_the_error_explains_a_missing_venv_module(checkout: Path) -> None:
    python = checkout / "python"
    python.write_text(FAKE_PYTHON)
    python.chmod(0o755)

    with pytest.raises(subprocess.CalledProcessError) as failed:
        make(checkout, "test", f"PYTHON={python}")

    assert "apt install python3-venv" in failed.value.stderr
    assert not (checkout / ".venv").exists()


@pytest.mark.parametrize(
    ("installed_at", "installs"), [pytest.param(2, False, id="once"), pytest.param(0, True, id="new pins")]
)
def test_pins_are_installed_once(checkout: Path, installed_at: int, installs: bool) -> None:
    stamp = checkout / ".venv" / ".installed"
    stamp.parent.mkdir()
    stamp.touch()
    os.utime(stamp, (installed_at, installed_at))

    assert ("pip install" in make(checkout, "--dry-run", "lint")) is installs


def test_make_format_formats_a_module(checkout: Path) -> None:
    make(checkout, "format", f"VENV={ROOT / '.venv'}")

    assert (checkout / "module.py").read_text() == "x = [1, 2]\n"


def test_make_clean_removes_the_environment_and_keeps_the_sources(checkout: Path) -> None:
    (checkout / ".venv").mkdir()

    make(checkout, "clean")

    assert not (checkout / ".venv").exists()
    assert (checkout / "module.py").exists()


@pytest.mark.parametrize("target", ["docs", "pins", "pictures"])
def test_long_targets_can_be_planned(target: str) -> None:
    """Pins need the package index, and pictures minutes. Their commands are checked without being run."""
    assert ".venv/bin/" in make(ROOT, "--dry-run", target)
