"""Each command that the documents or the Makefile name is run by a test or by ``.ci/run``."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "deploy").rglob("*")]
CI = (ROOT / ".ci" / "run").read_text()

MANAGE = re.compile(r"\bmanage\.py ([a-z_]+)")
MODULE = re.compile(r"\bpython -m ([a-z_]+(?:\.[a-z_]+)*)")
MAKE = re.compile(r"(?:`|^)make ([a-z-]+)", re.MULTILINE)
TARGET = re.compile(r"^([a-z-]+):.*## .*\n((?:\t.*\n)*)", re.MULTILINE)
RECIPES = dict(TARGET.findall((ROOT / "Makefile").read_text()))

OF_OTHERS = {
    *("changepassword", "check", "collectstatic", "createcachetable", "createsuperuser", "migrate", "runserver"),
    *("shell", "showmigrations", "startapp", "db_worker", "rqworker", "run_huey"),
}
"""Commands of Django and of other packages."""

MODULES = {
    "benchmarks": "benchmarks/test_scenarios.py",
    "tests": "house/test_runner.py",
    "tests.faults.soak": "faults/test_soak.py",
    "tests.house.prose": "house/test_prose.py",
    "tests.mutations": "house/test_mutations.py",
    "tests.simulation": "simulation/test_histories.py",
    "tests.simulation.sabotages": "simulation/test_referee.py",
    "tests.event_types.schema_snapshot": "event_types/test_compatibility.py",
    "example_project.demo": "example_project/test_demo.py",
    "example_project.run": "example_project/test_run.py",
}
"""The tests of modules that documents and the Makefile name."""


def named(pattern: re.Pattern[str]) -> set[str]:
    """Return the commands that the documents name."""
    texts = (path.read_text() for path in DOCUMENTS if path.is_file())
    return {found for text in texts for found in pattern.findall(text)}


@cache
def sources() -> str:
    return "\n".join(path.read_text() for path in TESTS.rglob("*.py") if path != Path(__file__))


@pytest.mark.parametrize("command", sorted(named(MANAGE) - OF_OTHERS))
def test_a_management_command_is_called_by_a_test(command: str) -> None:
    folders = [ROOT / app / "management" / "commands" for app in ("webhooks_app", "demo_data")]
    assert any((folder / f"{command}.py").exists() for folder in folders)
    assert re.search(rf"[\"' ]{command}[\"' ]", sources())


@pytest.mark.parametrize("module", sorted(named(MODULE) - {"venv", "pip", "pytest", "django"}))
def test_a_module_is_run_by_a_test(module: str) -> None:
    assert module in MODULES, "name the test that runs it in MODULES"
    assert module.rpartition(".")[2] in (TESTS / MODULES[module]).read_text()


@pytest.mark.parametrize("target", RECIPES)
def test_a_target_is_made_by_ci_or_run_by_a_test(target: str) -> None:
    is_made = re.search(rf"\bmake {target}\b", CI) or f'"{target}"' in (TESTS / "house/test_makefile.py").read_text()
    assert is_made or set(MODULE.findall(RECIPES[target])) & MODULES.keys()


def test_documents_name_only_targets_that_exist() -> None:
    assert named(MAKE) - RECIPES.keys() == set()
