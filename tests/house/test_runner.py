"""What ``make test`` reports, and when it fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.__main__ import _look_for_servers, _repeat_failed, _run, _run_pytest, _sums, exit_status, rows_of
from tests.support.databases import DATABASES
from tests.support.parts import ALL_DATABASES, ALL_LONGER, ALL_ROWS_DIFFER, DIFFERS, TESTS, is_below
from tests.support.servers.process import ServerMissingError

TOY = """
import pytest
from pathlib import Path

def test_passes(): pass
def test_fails(): assert False
def test_is_skipped(): pytest.skip("no server")
@pytest.fixture
def broken(): raise OSError
def test_has_no_fixture(broken): pass
def test_is_unsteady():
    first = not Path("ran").exists()
    Path("ran").touch()
    assert not first
"""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Write a file of tests, which the next runs find."""

    def write(text: str) -> None:
        (tmp_path / "test_toy.py").write_text(text)
        plugins = ("tests.support.parts", "tests.support.databases", "no:django")
        (tmp_path / "pytest.ini").write_text(f"[pytest]\naddopts = {' '.join(f'-p {name}' for name in plugins)}\n")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("PYTHONPATH", str(TESTS.parent))
        monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)  # set by the run that runs this test

    return write


def test_what_fails_beside_others_and_passes_alone_is_unsteady(
    toy: Callable[[str], None], capfd: pytest.CaptureFixture[str]
) -> None:
    toy(TOY)

    tally = _repeat_failed("sqlite", _run_pytest("sqlite", "all", []), "all", [])

    assert tally == {
        "passed": 1,
        "failed": ["test_toy.py::test_fails", "test_toy.py::test_has_no_fixture"],
        "unsteady": ["test_toy.py::test_is_unsteady"],
        "skipped": ["Skipped: no server"],
    }
    assert _sums([tally]) == "1 passed, 3 failed, 1 skipped"


TABLE = """
import pytest

@pytest.mark.parametrize("row", ["first", "second"])
@pytest.mark.parametrize("of_another_table", ["first", "second"])
def test_table(row, of_another_table): assert row == of_another_table == "first"
def test_without_a_table(): pass

@pytest.mark.parametrize("row", [pytest.param("first", marks=pytest.mark.only_on("mariadb")), "second"])
def test_whose_first_row_runs_elsewhere(row): assert row == "second"
"""


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("rows", ["first", "differing"])
def test_the_first_row_of_each_table_can_run_alone(
    toy: Callable[[str], None], order: int, rows: str, capfd: pytest.CaptureFixture[str]
) -> None:
    toy(TABLE)

    tally = _run_pytest("sqlite", "all", [f"--rows={rows}", f"--randomly-seed={order}"])

    assert (tally["passed"], tally["failed"]) == (3, [])


GROUP = """
import os, time
import pytest

@pytest.mark.xdist_group("a slow server")
@pytest.mark.parametrize("number", range(4))
def test_with_a_server(number):
    time.sleep(0.1)
    process = os.environ["PYTEST_XDIST_WORKER"]
    with open("processes", "a+") as seen:
        seen.write(process)
        seen.seek(0)
        assert set(seen.read().split("gw")) == {"", process[2:]}
    assert number != 3
"""


def test_tests_of_a_group_run_in_one_process(toy: Callable[[str], None], capfd: pytest.CaptureFixture[str]) -> None:
    toy(GROUP)

    tally = _run("sqlite", part="all", options=[], processes={"sqlite": 2})

    assert tally["failed"] == ["test_toy.py::test_with_a_server[3]"]


@pytest.mark.parametrize(
    ("database", "part", "rows"),
    [
        pytest.param("sqlite", "rest", [], id="SQLite tries all"),
        pytest.param("mariadb", "rest", ["--rows=differing"], id="a server those that differ there"),
        pytest.param("postgresql", "quick", [], id="of these all differ"),
    ],
)
def test_tables_of_parameters_run_whole_where_their_rows_differ(database: str, part: str, rows: list[str]) -> None:
    assert rows_of(database, part) == rows


@pytest.mark.parametrize(
    ("tally", "missing", "is_ci", "forgives", "status"),
    [
        pytest.param({}, {}, True, False, 0, id="everything passed"),
        pytest.param({"failed": ["test"]}, {}, False, True, 1, id="one failed"),
        pytest.param({"unsteady": ["test"]}, {}, False, False, 1, id="one passed only alone"),
        pytest.param({"unsteady": ["test"]}, {}, False, True, 0, id="a developer forgives it"),
        pytest.param({"unsteady": ["test"]}, {}, True, True, 1, id="CI forgives nothing"),
        pytest.param({"skipped": ["no server"]}, {"mariadb": "not found"}, False, False, 0, id="a server is missing"),
        pytest.param({"skipped": ["no server"]}, {}, True, False, 1, id="CI skips a test"),
        pytest.param({}, {"mariadb": "not found"}, True, False, 1, id="CI lacks a database"),
    ],
)
def test_a_run_fails_for_what_it_did_not_show(
    tally: dict[str, Any], missing: dict[str, str], is_ci: bool, forgives: bool, status: int
) -> None:
    complete = {"failed": [], "unsteady": [], "skipped": [], **tally}

    assert exit_status([complete], missing, is_ci=is_ci, forgives=forgives) == status


def test_without_database_servers_the_tests_run_on_sqlite(monkeypatch: pytest.MonkeyPatch) -> None:
    def find() -> None:
        raise ServerMissingError("not found")

    for name in ("postgresql", "mariadb"):
        monkeypatch.setitem(DATABASES, name, replace(DATABASES[name], find=find))

    assert _look_for_servers(None, "quick", is_ci=False) == (["sqlite"], {"postgresql": "not found"})


def test_the_parts_name_only_existing_tests() -> None:
    paths = [*DIFFERS, *ALL_LONGER, *ALL_DATABASES, *ALL_ROWS_DIFFER]

    assert [path for path in paths if not (TESTS / path).exists()] == []


def test_the_quick_tests_on_postgresql_are_among_those_of_every_database() -> None:
    assert [path for path in DIFFERS if not is_below(ALL_DATABASES, TESTS / path)] == []
