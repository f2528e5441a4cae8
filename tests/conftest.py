"""Fixtures for all tests: two accounts, and the real servers, each started when a test first asks for it."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, TypeVar

import hypothesis
import pytest
from django.utils import translation

from tests.support.missing import skip_without

from .support.databases import URL_VARIABLE
from .support.plans import make_tables_new
from .support.servers import nginx as nginx_server
from .support.servers import pgbouncer as pgbouncer_server
from .support.servers import rabbitmq, redis
from .support.servers.process import ServerMissingError

Server = TypeVar("Server")

# Each run tries new examples. A failing one is printed, and stays in no file that would repeat it in later runs.
# In CI, Hypothesis would by default try the same ones in each run. A deadline for each example would depend on load.
hypothesis.settings.register_profile("tests", database=None, print_blob=True, derandomize=False, deadline=None)
hypothesis.settings.load_profile("tests")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the slowest tests first, so that the others fill the gaps beside them."""
    items.sort(key=_timeout_seconds, reverse=True)


def _timeout_seconds(item: pytest.Item) -> float:
    marker = item.get_closest_marker("timeout")
    return marker.args[0] if marker else 0


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exclude the collected tests from garbage collection, which would visit each of them again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True)
def _language_of_the_settings() -> Iterator[None]:
    """Deactivate the language of the last request, which Django's test client leaves active."""
    yield
    translation.deactivate()


@pytest.fixture
def alice(django_user_model: type[Any]) -> Any:
    """An account."""
    return django_user_model.objects.create_user("alice")


@pytest.fixture
def bob(django_user_model: type[Any]) -> Any:
    """Another account."""
    return django_user_model.objects.create_user("bob")


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The spans of a process with a tracer provider, which OpenTelemetry lets nobody replace."""
    from opentelemetry import trace

    from .support.spans import Spans

    made = Spans()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: made.provider)
    yield made
    made.provider.shutdown()


@pytest.fixture
def new_tables(db: None) -> None:
    """Empty tables in new files, for a test in a transaction. Plans then do not depend on the rows of earlier tests."""
    make_tables_new()


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """The URL of a Redis server that only this test run uses."""
    with _started(redis.running) as url:
        yield url


@pytest.fixture(scope="session")
def rabbitmq_url() -> Iterator[str]:
    """The URL of a RabbitMQ node that only this test run uses."""
    with _started(rabbitmq.running) as url:
        yield url


@pytest.fixture(scope="session")
def nginx() -> Iterator[nginx_server.NginxReceiver]:
    """A fast receiver that answers 200 and records its requests."""
    with _started(nginx_server.running) as receiver:
        yield receiver


@pytest.fixture
def pgbouncer() -> Iterator[pgbouncer_server.Pool]:
    """PgBouncer in transaction mode for one test; it keeps connections to the test database open."""
    with _started(lambda: pgbouncer_server.running(os.environ[URL_VARIABLE])) as pool:
        yield pool


@contextmanager
def _started(start: Callable[[], AbstractContextManager[Server]]) -> Generator[Server]:
    with ExitStack() as stack:
        try:
            server = stack.enter_context(start())
        except ServerMissingError as error:
            skip_without(error)
        yield server
