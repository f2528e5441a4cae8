"""A pytest plugin that runs the tests on the database in ``--database``, on a server of their own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from .parts import ALL_DATABASES, is_below, keep
from .servers import mariadb, postgresql
from .servers.process import ServerMissingError

URL_VARIABLE = "TEST_DATABASE_URL"


@contextmanager
def sqlite_file() -> Generator[str]:
    """Yield the URL of a database file in a temporary directory."""
    with tempfile.TemporaryDirectory(prefix="webhooks-sqlite-") as directory:
        yield f"sqlite:///{Path(directory, 'test.sqlite3')}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Database:
    """Functions for detecting a database on this machine, and for starting a new one, which yields its URL.

    ``find`` looks only for an installed server, ``check`` for any that can be started.
    """

    find: Callable[[], object]
    check: Callable[[], object]
    running: Callable[[], AbstractContextManager[str]]


DATABASES = {
    "sqlite": Database(find=lambda: None, check=lambda: None, running=sqlite_file),
    "postgresql": Database(find=postgresql.installed_programs, check=postgresql.programs, running=postgresql.running),
    "mariadb": Database(find=mariadb.programs, check=mariadb.programs, running=mariadb.running),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--database",
        choices=tuple(DATABASES),
        default="sqlite",
        help="run on this database; on any but sqlite, only the tests that use the database (default: %(default)s)",
    )


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, object, object]:
    """Start the server before pytest-django loads the settings. Workers of xdist use the URL of their controller."""
    name = early_config.known_args_namespace.database
    if "PYTEST_XDIST_WORKER" not in os.environ:
        stack = ExitStack()
        early_config.add_cleanup(stack.close)
        try:
            os.environ[URL_VARIABLE] = stack.enter_context(DATABASES[name].running())
        except ServerMissingError as error:
            raise pytest.UsageError(f"--database={name}: {error}") from None
    return (yield)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no file without a test that runs on this database."""
    if config.getoption("database") == "sqlite" or collection_path.suffix != ".py":
        return None
    return None if is_below(ALL_DATABASES, collection_path) or "only_on" in collection_path.read_text() else True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    name = config.getoption("database")
    keep(config, items, lambda item: _runs_on(name, item))


def pytest_report_header(config: pytest.Config) -> str:
    return f"database: {config.getoption('database')}"


def _runs_on(database: str, item: pytest.Item) -> bool:
    if marker := item.get_closest_marker("only_on"):
        return database in marker.args
    return database == "sqlite" or (_uses_database(item) and is_below(ALL_DATABASES, item.path))


def _uses_database(item: pytest.Item) -> bool:
    fixtures = {"db", "transactional_db", "live_server"}
    return bool(item.get_closest_marker("django_db") or fixtures.intersection(getattr(item, "fixturenames", ())))
