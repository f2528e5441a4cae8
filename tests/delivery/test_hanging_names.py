"""Hanging name servers do not affect the webhooks of another owner."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from webhooks_app.delivery.engine import Engine
from webhooks_app.models import DeliveryAttempt

from ..support.hanging_names import HangingNames
from ..support.rows import emit_one, make_webhook
from ..transport.receiver import receiving
from ..transport.sending import transport

pytestmark = [pytest.mark.django_db, pytest.mark.only_on("sqlite")]

HANGING, EVENTS = 100, 20


@pytest.fixture(params=["native", "requests"])
def transport_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def names() -> Iterator[HangingNames]:
    made = HangingNames()
    yield made
    made.released.set()


def when(condition: Callable[[], bool], act: Callable[[], None]) -> None:
    """Call a function in another thread as soon as the condition is true, or after 20 seconds."""

    def watch() -> None:
        until = time.monotonic() + 20
        while not condition() and time.monotonic() < until:
            time.sleep(0.02)
        act()

    threading.Thread(target=watch, daemon=True).start()


def test_200_hanging_names_do_not_delay_webhooks_of_another_owner(
    alice: Any, django_user_model: Any, transport_name: str, names: HangingNames
) -> None:
    with receiving() as receiver:
        for account in ("one", "two"):
            owner = django_user_model.objects.create(username=account)
            for number in range(HANGING):
                make_webhook(owner, url=receiver.url("/hang", f"hang{number}.{account}{number}.test"))
            emit_one(owner)
        make_webhook(alice, url=receiver.url("/ok", "healthy.example.com"))
        for _ in range(EVENTS):
            emit_one(alice)
        arrived_while_hanging: list[int] = []

        def stop() -> None:
            arrived_while_hanging.append(receiver.hits("/ok"))
            names.released.set()
            engine.stop()

        engine = Engine(transport=transport(transport_name, resolve=names))
        when(lambda: receiver.hits("/ok") == EVENTS, stop)
        engine.run()

    assert arrived_while_hanging == [EVENTS]
    assert not DeliveryAttempt.objects.filter(delivery__webhook__owner=alice).exclude(result="succeeded").exists()
