"""A pytest plugin that divides the tests into a quick part and the rest, and records what each run did.

``make test`` runs the quick part, and ``make test-all`` everything. ``.ci/run`` runs the quick part, then the rest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

LONGER = {
    "real browser": ("browser", "docs/test_start.py"),
    "killed workers, brokers and databases": ("faults",),
    "other projects with the built wheel": ("hosts", "house/test_distribution.py", "owners/test_projects.py"),
    "the example service in processes of its own": ("acceptance", "demo_data", "example_project"),
    "Celery workers and brokers": (
        "house/test_servers.py",
        "tasks",
        "wake/test_chosen_wake.py",
        "wake/test_folding.py",
        "wake/test_recipes.py",
    ),
    "web servers and commands in processes of their own": (
        *("api/test_counting.py", "api/test_hosts.py", "api/test_servers.py"),
        *("management/test_deliver_webhooks.py", "management/test_listen_webhooks.py"),
    ),
    "other languages": (
        *("docs/test_vectors.py", "pages/test_verification.py", "portal/test_first_event.py"),
        "signatures/test_standard.py",
    ),
    "measurements, builds and type checkers": (
        *("benchmarks", "emission/test_typing.py", "house/test_docs_site.py"),
        *("transport/test_exhaustion.py", "transport/test_many_requests.py"),
    ),
    "walks through every page, and hostile values in every place": (
        *("admin/test_disclosure.py", "admin/test_export.py", "admin/test_hostile.py", "admin/test_long_lists.py"),
        *("api/test_disclosure.py", "api/test_hostile_choices.py", "checks/test_hostile_values.py"),
        *("delivery/test_hanging_names.py", "delivery/test_hostile_rows.py", "emission/test_hostile_webhooks.py"),
        *("maintenance/jobs/test_hostile_rows.py", "portal/test_disclosure.py", "portal/test_long_lists.py"),
        *("portal/test_routes.py", "transport/test_pool.py"),
    ),
}
"""The tests outside the quick part, by what they need."""

ALL_LONGER = tuple(path for paths in LONGER.values() for path in paths)

DIFFERS = (
    *("database", "maintenance/rollups", "replays", "models/test_keyset.py"),
    *(f"delivery/test_{name}.py" for name in ("limits", "lock_order", "order", "queue", "recording")),
    *(f"emission/test_{name}.py" for name in ("emit_many", "idempotency", "references")),
)
"""The quick tests that run on PostgreSQL too, because what they show depends on the database."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", choices=("all", "quick", "rest"), default="all", help="default: %(default)s")
    parser.addoption("--tally", type=Path, help="write the numbers of this run to this file, as JSON")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no file without a test of this part. Each process of a run imports all others."""
    part = config.getoption("part")
    if part == "all" or collection_path.suffix != ".py":
        return None
    is_longer, is_on = is_below(ALL_LONGER, collection_path), is_quick_on(config.getoption("database"), collection_path)
    if part == "quick":
        return None if is_on and not is_longer else True
    return None if is_longer or not is_on or "mark.long" in collection_path.read_text() else True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    part = config.getoption("part")
    if part == "all":
        return
    database = config.getoption("database")
    keep(config, items, lambda item: is_quick(item, database) == (part == "quick"))


def keep(config: pytest.Config, items: list[pytest.Item], is_chosen: Callable[[pytest.Item], bool]) -> None:
    """Deselect all other tests."""
    chosen: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in items:
        (chosen if is_chosen(item) else others).append(item)
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = chosen


def is_quick(item: pytest.Item, database: str) -> bool:
    """Return True if a test is in the quick part on this database."""
    return (
        not item.get_closest_marker("long") and not is_below(ALL_LONGER, item.path) and is_quick_on(database, item.path)
    )


def is_quick_on(database: str, file: Path) -> bool:
    """Return True if the quick part on this database includes this file, unless it is among the longer ones."""
    return database == "sqlite" or is_below(DIFFERS, file)


@cache
def is_below(paths: tuple[str, ...], file: Path) -> bool:
    """Return True if a file of the tests is one of these paths, or in one of these folders."""
    return any(file.is_relative_to(TESTS / path) for path in paths)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Remove the group that ``--dist=loadgroup`` appends, with which ``--last-failed`` would find no test."""
    if report.nodeid.rfind("@") > report.nodeid.rfind("]"):
        report.nodeid = report.nodeid.rpartition("@")[0]


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    path = config.getoption("tally")
    if path is None:
        return
    stats = terminalreporter.stats
    failed = dict.fromkeys(report.nodeid for name in ("failed", "error") for report in stats.get(name, []))
    skipped = list(_reasons(stats.get("skipped", [])))
    tally = {"passed": len(stats.get("passed", [])), "failed": list(failed), "skipped": skipped}
    path.write_text(json.dumps(tally))


def _reasons(skipped: list[pytest.TestReport]) -> Iterator[str]:
    for report in skipped:
        yield report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
