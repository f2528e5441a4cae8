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
    "Celery workers and brokers": ("tasks", "wake/test_chosen_wake.py", "wake/test_folding.py", "wake/test_recipes.py"),
    "web servers and commands in processes of their own": (
        *("api/test_counting.py", "api/test_hosts.py", "api/test_servers.py"),
        *("management/test_deliver_webhooks.py", "management/test_listen_webhooks.py", "metrics/test_monitoring.py"),
    ),
    "other languages": (
        *("docs/test_vectors.py", "pages/test_verification.py", "portal/test_first_event.py"),
        "signatures/test_standard.py",
    ),
    "measurements, builds and type checkers": (
        *("benchmarks", "emission/test_typing.py", "docs/test_site.py"),
        *("transport/test_exhaustion.py", "transport/test_many_requests.py"),
    ),
    "walks through every page, and hostile values in every place": (
        *("admin/test_disclosure.py", "admin/test_export.py", "admin/test_hostile.py", "admin/test_long_lists.py"),
        *("api/test_disclosure.py", "api/test_hostile_choices.py", "checks/test_hostile_values.py"),
        *("delivery/test_hanging_names.py", "delivery/test_hostile_rows.py", "emission/test_hostile_webhooks.py"),
        *("maintenance/jobs/test_hostile_rows.py", "portal/test_disclosure.py", "portal/test_long_lists.py"),
        *("portal/test_routes.py", "transport/test_pool.py", "pages/test_actions.py", "pages/test_lists.py"),
        *("maintenance/health/test_histories.py", "maintenance/health/test_surfaces.py"),
    ),
}
"""The tests outside the quick part, by what they need."""

ALL_LONGER = tuple(path for paths in LONGER.values() for path in paths)

EVERY_DATABASE = {
    "statements of our own, locks, plans, and the path of a delivery": (
        *("database", "delivery", "emission", "filters", "models", "replays", "routing", "wake"),
        *("maintenance", "faults", "tasks", "testing/test_costs.py"),
        "simulation/test_store.py",
    ),
    "operations that lock rows or move them in the queue": (
        *("operations/test_lifecycle.py", "operations/test_new_url.py", "operations/test_pause.py"),
        *("operations/test_queries.py", "operations/test_registration.py", "operations/test_verification.py"),
    ),
    "lists, sums and searches": (
        *("admin/test_impact.py", "admin/test_long_lists.py", "admin/test_operations.py", "admin/test_overview.py"),
        *("admin/test_owner_search.py", "admin/test_problems.py", "admin/test_receivers.py"),
        *("admin/test_typed_filters.py", "api/test_counting.py", "api/test_idempotency.py", "api/test_lists.py"),
        *("api/test_log.py", "api/test_order.py", "api/test_references.py", "api/test_replays.py"),
        *("metrics/test_numbers.py", "pages/test_timeline.py", "portal/test_deliveries.py"),
        "portal/test_long_lists.py",
    ),
    "commands that read or change many rows": (
        *("demo_data", "management/test_configure_webhook.py", "management/test_explain_event.py"),
        *("management/test_forget_webhook_owner.py", "management/test_prune_webhooks.py"),
        *("management/test_reencrypt_webhook_secrets.py", "management/test_webhooks_doctor.py"),
    ),
}
"""The tests that run on every database, if they use one, because what they show could differ.

All others run on SQLite only: texts, forms, permissions, formats, the wire. They use the database too, but with
statements that tests of this list execute. A single test joins by ``only_on``, which names its databases.
"""

ALL_DATABASES = tuple(path for paths in EVERY_DATABASE.values() for path in paths)

ROWS_DIFFER = {
    "processes, servers and projects": ("faults", "hosts", "tasks"),
    "statements, or the values in them": (
        *("database", "filters", "models/test_hold.py", "models/test_keyset.py", "models/test_writers.py"),
        *("emission/test_bad_input.py", "delivery/test_hostile_rows.py", "delivery/test_receiver_text.py"),
        *("maintenance/rollups", "operations/test_queries.py", "operations/test_use_cases.py"),
        *("routing/test_admission.py", "admin/test_plans.py", "admin/test_problems.py", "admin/test_typed_filters.py"),
        *("api/test_lists.py", "pages/test_lists.py"),
    ),
}
"""Tests whose tables of parameters run whole on PostgreSQL and MariaDB, because their rows differ there.

Of all other tables the first row runs there: it executes the statements, and SQLite tries our rules with all rows.
"""

ALL_ROWS_DIFFER = tuple(path for paths in ROWS_DIFFER.values() for path in paths)

DIFFERS = (
    *("database", "maintenance/rollups", "replays", "models/test_keyset.py", "models/test_writers.py"),
    *(f"delivery/test_{name}.py" for name in ("limits", "lock_order", "order", "queue", "recording")),
    *(f"emission/test_{name}.py" for name in ("emit_many", "idempotency", "references")),
)
"""The quick tests that run on PostgreSQL too, because what they show depends on the database."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", choices=("all", "quick", "rest"), default="all", help="default: %(default)s")
    parser.addoption(
        "--rows",
        choices=("all", "differing", "first"),
        default="all",
        help="of each table of parameters; differing: all if they differ by database (default: %(default)s)",
    )
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


@pytest.hookimpl(trylast=True)  # the first of the rows that run on this database
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _put_groups_into_ids(items)
    part, database = config.getoption("part"), config.getoption("database")
    if part != "all":
        keep(config, items, lambda item: is_quick(item, database) == (part == "quick"))
    if (rows := config.getoption("rows")) != "all":
        whole = ALL_ROWS_DIFFER if rows == "differing" else ()
        first = {_table_of(item): item for item in sorted(items, key=_row_of, reverse=True)}
        keep(config, items, lambda item: first[_table_of(item)] is item or is_below(whole, item.path))


def _put_groups_into_ids(items: list[pytest.Item]) -> None:
    """Show ``--dist=loadgroup`` the groups: pytest-xdist 3.8 adds them to an attribute that pytest 9.2 ignores."""
    for item in items:
        if "_nodeid" in vars(item):
            item._id = type(item.id).parse(item._nodeid)


def _table_of(item: pytest.Item) -> tuple[Path, str]:
    """Return what all rows of a table of parameters share."""
    return item.path, item.location[2].partition("[")[0]


def _row_of(item: pytest.Item) -> list[int]:
    """Return the place of a test in its tables of parameters."""
    callspec = getattr(item, "callspec", None)
    return list(callspec.indices.values()) if callspec else []


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
    """Remove the group that ``--dist=loadgroup`` appends, with which ``--last-failed`` would find no test.

    The process that ran the test, whose reports have no ``node``, compares the id once more.
    """
    if hasattr(report, "node") and report.nodeid.rfind("@") > report.nodeid.rfind("]"):
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
