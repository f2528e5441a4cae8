"""The cost of a delivery in a test of the host's project."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection

from webhooks_app.testing import Webhooks

from ..support.rows import EVENT_TYPE, emit_one

MOST_CALLS = {"sqlite": 3_100, "mysql": 12_000, "postgresql": 3_500}
"""Python calls for one event, most of them by the ORM, and by PyMySQL for MariaDB. An engine that waits in a loop makes
ten times as many."""


@contextmanager
def counted_calls() -> Iterator[Callable[[], int]]:
    number = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal number
        number += event == "call"

    sys.setprofile(count)
    try:
        yield lambda: number
    finally:
        sys.setprofile(None)


@pytest.mark.django_db
def test_a_delivery_takes_few_calls(webhooks: Webhooks, alice: Any) -> None:
    webhooks.register(alice, EVENT_TYPE)
    emit_one(alice)
    webhooks.deliver()  # imports modules and fills caches
    emit_one(alice)

    with counted_calls() as calls:
        (request,) = webhooks.deliver()

    assert request.event.type == EVENT_TYPE
    assert calls() <= MOST_CALLS[connection.vendor]
