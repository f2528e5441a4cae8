"""The summary at the end of ``make test``."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.__main__ import Result, _look_for_servers, exit_status, merge, read_report
from tests.support.databases import DATABASES, LONG, TESTS
from tests.support.servers.process import ServerMissingError

TOY = """
import pytest

def test_passes(): pass
def test_passes_too(): pass
def test_fails(): assert False
def test_is_skipped(): pytest.skip("no server")
@pytest.fixture
def broken(): raise OSError
def test_has_no_fixture(broken): pass
@pytest.mark.xfail(strict=True)
def test_is_known_to_fail(): assert False
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of pytest for a test file with every outcome."""
    directory = tmp_path_factory.mktemp("toy")
    (directory / "test_toy.py").write_text(TOY)
    (directory / "pytest.ini").write_text("[pytest]\n")
    options = ["--junitxml=report.xml", "-p", "no:randomly", "-p", "no:django"]
    subprocess.run([sys.executable, "-m", "pytest", *options], check=False, capture_output=True, cwd=directory)
    return directory / "report.xml"


def test_every_outcome_is_counted(report: Path) -> None:
    result = read_report("sqlite", report, 1)

    assert str(result) == "3 passed, 2 failed, 1 skipped"
    assert result.failed == ("test_toy::test_fails", "test_toy::test_has_no_fixture")
    assert result.skipped == ("no server",)


@pytest.mark.parametrize(
    ("repeated", "failed", "unsteady"),
    [
        pytest.param({"passed": 2}, [], ["a", "b"], id="both pass alone"),
        pytest.param({"passed": 1, "failed": ("b",)}, ["b"], ["a"], id="one fails again"),
        pytest.param({"passed": 1}, ["a", "b"], [], id="one did not run again"),
        pytest.param({"passed": 2, "was_aborted": True}, ["a", "b"], [], id="the second run was aborted"),
    ],
)
def test_a_failed_test_counts_as_unsteady_only_if_it_passes_alone(
    repeated: dict[str, Any], failed: list[str], unsteady: list[str]
) -> None:
    first = Result(database="sqlite", passed=5, failed=("a", "b"), skipped=(), seconds=1)
    again = replace(Result(database="sqlite", passed=0, failed=(), skipped=(), seconds=1), **repeated)

    result = merge(first, again)

    assert (list(result.failed), list(result.unsteady)) == (failed, unsteady)
    assert result.passed == 5 + len(unsteady)


def test_an_aborted_run_counts_as_failed(tmp_path: Path) -> None:
    result = read_report("mariadb", tmp_path / "never written", 4)

    assert str(result) == "0 passed, 1 failed, 0 skipped"


@pytest.mark.parametrize(
    ("failed", "skipped", "missing", "is_ci", "status"),
    [
        pytest.param([], [], {}, True, 0, id="everything passed"),
        pytest.param(["test"], [], {}, False, 1, id="one failed"),
        pytest.param([], ["no server"], {"mariadb": "not found"}, False, 0, id="a developer's machine lacks servers"),
        pytest.param([], ["no server"], {}, True, 1, id="CI skips a test"),
        pytest.param([], [], {"mariadb": "not found"}, True, 1, id="CI lacks a database"),
    ],
)
def test_in_ci_nothing_may_be_skipped(
    failed: list[str], skipped: list[str], missing: dict[str, str], is_ci: bool, status: int
) -> None:
    total = Result(database="all", passed=1, failed=tuple(failed), skipped=tuple(skipped), seconds=1)

    assert exit_status(total, missing, is_ci=is_ci) == status


def test_only_the_selected_database_is_tested() -> None:
    assert _look_for_servers("sqlite", is_ci=False) == (["sqlite"], {})


def test_without_database_servers_the_tests_run_on_sqlite(monkeypatch: pytest.MonkeyPatch) -> None:
    def find() -> None:
        raise ServerMissingError("not found")

    for name in ("postgresql", "mariadb"):
        monkeypatch.setitem(DATABASES, name, replace(DATABASES[name], find=find))

    assert _look_for_servers(None, is_ci=False) == (["sqlite"], {"postgresql": "not found", "mariadb": "not found"})


def test_a_quick_run_skips_only_existing_tests() -> None:
    assert [path for path in LONG if not (TESTS / path).exists()] == []
