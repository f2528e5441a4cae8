"""Each command that the documents or the Makefile name is run by a test or by ``.ci/run``."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "deploy").rglob("*")]
MAKEFILE = (ROOT / "Makefile").read_text()
CI = (ROOT / ".ci" / "run").read_text()

MANAGE = re.compile(r"\bmanage\.py ([a-z_]+)")
MODULE = re.compile(r"\bpython -m ([a-z_]+(?:\.[a-z_]+)*)")
TARGET = re.compile(r"^([a-z-]+):.*## ", re.MULTILINE)
MAKE = re.compile(r"`make ([a-z-]+)|^make ([a-z-]+)", re.MULTILINE)

OF_OTHERS = {
    *("check", "collectstatic", "createcachetable", "createsuperuser", "migrate", "runserver", "shell"),
    *("showmigrations", "startapp", "db_worker", "rqworker", "run_huey"),
}
"""Commands of Django and of other packages."""

TARGETS = {
    "help": "house/test_makefile.py",
    "demo": "example_project/test_demo.py",
    "run": "example_project/test_run.py",
    "soak": "faults/test_soak.py",
    "bench": "house/test_benchmarks.py",
    "docs": "house/test_docs_site.py",
    "format": "house/test_commands.py",
    "pictures": "house/test_commands.py",
    "pins": "house/test_commands.py",
    "clean": "house/test_commands.py",
}
"""The tests of targets that ``.ci/run`` does not make."""

MODULES = {
    "benchmarks": "house/test_benchmarks.py",
    "tests": "house/test_runner.py",
    "tests.faults.soak": "faults/test_soak.py",
    "tests.house.prose": "house/test_prose.py",
    "tests.mutations": "house/test_mutations.py",
    "tests.event_types.schema_snapshot": "event_types/test_compatibility.py",
    "example_project.demo": "example_project/test_demo.py",
}
"""The tests of modules that documents name."""


def named(pattern: re.Pattern[str]) -> set[str]:
    """Return the commands that the documents name."""
    texts = (path.read_text() for path in DOCUMENTS if path.is_file())
    return {next(filter(None, found.groups())) for text in texts for found in pattern.finditer(text)}


@cache
def sources() -> str:
    tests = (path for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__))
    return "\n".join(path.read_text() for path in tests)


@pytest.mark.parametrize("command", sorted(named(MANAGE) - OF_OTHERS))
def test_a_management_command_is_called_by_a_test(command: str) -> None:
    folders = [ROOT / app / "management" / "commands" for app in ("webhooks_app", "demo_data")]
    assert any((folder / f"{command}.py").exists() for folder in folders)
    assert re.search(rf"[\"' ]{command}[\"' ]", sources())


@pytest.mark.parametrize("module", sorted(named(MODULE) - {"venv", "pip", "pytest", "django"}))
def test_a_module_is_run_by_a_test(module: str) -> None:
    assert module in MODULES, "name the test that runs it in MODULES"
    assert module.rpartition(".")[2] in (ROOT / "tests" / MODULES[module]).read_text()


@pytest.mark.parametrize("target", TARGET.findall(MAKEFILE))
def test_a_target_is_made_by_ci_or_run_by_a_test(target: str) -> None:
    if not re.search(rf"\bmake {target}\b", CI):
        assert (ROOT / "tests" / TARGETS.get(target, "name the test that runs it in TARGETS")).is_file()


def test_documents_name_only_targets_that_exist() -> None:
    assert named(MAKE) - set(TARGET.findall(MAKEFILE)) == set()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with the Makefile, an old environment's stamp, and a badly formatted module."""
    for name in ("Makefile", "pyproject.toml", "requirements-dev.txt"):
        shutil.copy(ROOT / name, tmp_path)
        os.utime(tmp_path / name, (0, 0))
    (tmp_path / "module.py").write_text("x = [1,2]\n")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    subprocess.run(["git", "add", "module.py"], check=True, cwd=tmp_path)
    return tmp_path


def make(directory: Path, *arguments: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    command = ["make", "--no-print-directory", *arguments]
    run = subprocess.run(command, check=False, cwd=directory, env=environment, text=True, capture_output=True)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def test_make_format_formats_a_module(checkout: Path) -> None:
    make(checkout, "format", f"VENV={ROOT / '.venv'}")

    assert (checkout / "module.py").read_text().endswith("x = [1, 2]\n")


def test_make_clean_removes_the_environment_and_keeps_the_sources(checkout: Path) -> None:
    (checkout / ".venv").mkdir()

    make(checkout, "clean")

    assert not (checkout / ".venv").exists()
    assert (checkout / "module.py").exists()


@pytest.mark.parametrize("target", ["pins", "pictures"])
def test_long_targets_can_be_planned(target: str) -> None:
    """Pins need the package index, and pictures minutes. Their commands are checked without being run."""
    assert ".venv/bin/" in make(ROOT, "--dry-run", target)
