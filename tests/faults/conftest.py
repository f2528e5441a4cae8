"""A lab for each test. Its servers are private to the test process, because they are killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet

from tests.support.missing import skip_without

from ..support.servers.process import ServerMissingError
from . import reporting
from .invariants import Counts
from .lab import Lab, migrate
from .servers import BROKERS, DATABASES, BaseBroker, BaseDatabase

IN_ONE_PROCESS = ("postgresql-rabbitmq", "mariadb-redis")
"""Places with servers that take long to start. Their tests run in one process of xdist, one after the other."""


def _place(database: str, broker: str) -> ParameterSet:
    name = f"{database}-{broker}"
    group = [pytest.mark.xdist_group(f"faults-{name}")] if name in IN_ONE_PROCESS else []
    return pytest.param((database, broker), marks=[pytest.mark.only_on(database), *group], id=name)


PLACES = {
    each.id: each
    for each in (
        _place("postgresql", "redis"),
        _place("postgresql", "rabbitmq"),
        _place("sqlite", "embedded"),
        _place("mariadb", "redis"),
    )
}
UNLESS_MARKED = [name for name in PLACES if not name.startswith("mariadb")]
"""MariaDB takes long to start. Only tests about databases and workers run there.

On SQLite run those that depend on its locks, its clock or the embedded broker.
"""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test in the places of its marker ``places("postgresql-redis")``, or else in all but those of MariaDB."""
    if "lab" in metafunc.fixturenames or "place" in metafunc.fixturenames:
        marker = metafunc.definition.get_closest_marker("places")
        metafunc.parametrize("place", [PLACES[name] for name in (marker.args if marker else UNLESS_MARKED)])


@pytest.fixture(scope="session")
def servers() -> Iterator[Callable[[type], Any]]:
    """Return a server of each kind, started on first use."""
    with ExitStack() as stack:
        started: dict[type, Any] = {}

        def server(kind: type) -> Any:
            if kind not in started:
                try:
                    started[kind] = kind()
                except ServerMissingError as error:
                    skip_without(error)
                stack.callback(started[kind].close)
            return started[kind]

        yield server


@pytest.fixture(scope="session")
def migrated(servers: Callable[[type], Any], django_db_blocker: Any) -> Callable[[str], BaseDatabase]:
    done = set()

    def migrated(name: str) -> BaseDatabase:
        database: BaseDatabase = servers(DATABASES[name])
        if name not in done:
            with django_db_blocker.unblock():
                migrate(database)
            done.add(name)
        return database

    return migrated


@pytest.fixture
def make_lab(
    place: tuple[str, str],
    servers: Callable[[type], Any],
    migrated: Callable[[str], BaseDatabase],
    tmp_path: Path,
    django_db_blocker: Any,
) -> Iterator[Callable[..., Lab]]:
    """Create a lab with different settings."""
    with django_db_blocker.unblock():
        broker: BaseBroker = servers(BROKERS[place[1]])
        database = migrated(place[0])
        broker.empty()
        yield lambda **options: Lab(database, broker, tmp_path, **options)


@pytest.fixture
def lab(make_lab: Callable[..., Lab]) -> Iterator[Lab]:
    """A receiver with the database and the broker of the place. The test starts everything else."""
    with make_lab() as lab:
        yield lab


@pytest.fixture
def report(request: pytest.FixtureRequest, place: tuple[str, str]) -> Callable[[Counts], None]:
    """Add the figures of this fault to the final table, and check them."""

    def report(counts: Counts, *, name: str = "") -> None:
        title = name or request.node.originalname.removeprefix("test_").replace("_", " ")
        row = reporting.row_of(f"{title} [{'-'.join(place)}]", counts)
        request.node.user_properties.append((reporting.PROPERTY, row))
        counts.check()

    return report
