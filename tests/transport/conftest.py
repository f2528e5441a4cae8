"""Fixtures that run a test with every real transport."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from webhooks_app.transport import BaseTransport

from .sending import transport

REAL = ("native", "requests")


@pytest.fixture(autouse=True)
def _kept_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep connections for longer than a busy machine may need between two requests."""
    monkeypatch.setattr("webhooks_app.transport.connections.IDLE_CONNECTION_SECONDS", 60)


@pytest.fixture(params=REAL)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make(name: str) -> Iterator[Callable[..., BaseTransport]]:
    """A factory for transports, which are closed after the test."""
    made: list[BaseTransport] = []

    def make_one(**options: Any) -> BaseTransport:
        made.append(transport(name, **options))
        return made[-1]

    yield make_one
    for sender in made:
        sender.close()


@pytest.fixture
def sender(make: Callable[..., BaseTransport]) -> BaseTransport:
    """A transport that may connect to loopback by plain http."""
    return make()
