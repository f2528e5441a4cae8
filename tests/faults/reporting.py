"""A pytest plugin: ``--seed``, and a table of all faults at the end of the run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .invariants import Counts

PROPERTY = "fault"
COLUMNS = ("tried", "lost", "stuck", "false successes", "duplicates")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, help="repeat the randomised faults of the run that printed this seed")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "places(*names): inject the fault in these places alone (postgresql-redis, …)")


def row_of(name: str, counts: Counts) -> dict[str, Any]:
    """Return the report about one fault."""
    return {"name": name, **{column: getattr(counts, column.replace(" ", "_")) for column in COLUMNS}}


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of a table with one row per fault."""
    width = max(len(row["name"]) for row in rows)
    yield "  ".join([" " * width, *COLUMNS])
    for row in rows:
        yield "  ".join([row["name"].ljust(width), *(str(row[name]).rjust(len(name)) for name in COLUMNS)])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [report for name in ("passed", "failed") for report in terminalreporter.stats.get(name, [])]
    rows = [value for report in reports for name, value in report.user_properties if name == PROPERTY]
    if rows:
        terminalreporter.write_sep("=", "faults")
        for line in table(sorted(rows, key=lambda row: row["name"])):
            terminalreporter.write_line(line)
