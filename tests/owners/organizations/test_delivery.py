"""Emission and delivery for organizations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.rows import emit_one, make_webhook
from webhooks_app import emit, register_webhook, send_test_event
from webhooks_app.exceptions import InvalidOwnerError
from webhooks_app.models import Delivery, Event, Webhook

pytestmark = pytest.mark.django_db


def test_an_event_reaches_only_the_webhooks_of_its_organization(
    acme: Any, globex: Any, receiver: Callable[..., Any], deliver: Callable[..., None]
) -> None:
    make_webhook(acme)
    others = make_webhook(globex)
    transport = receiver(200)

    event = emit_one(acme)
    deliver(transport)

    assert [envelope["id"] for envelope in transport.sent()] == [event.pk]
    assert not others.deliveries.exists()


def test_the_handshake_of_an_organizations_webhook_passes(
    acme: Any, receiver: Callable[..., Any], deliver: Callable[..., None]
) -> None:
    webhook = register_webhook(owner=acme, url="http://127.0.0.1:9000/", event_types=["file.deleted"])

    deliver(receiver(200))

    webhook.refresh_from_db()
    assert (webhook.status, webhook.owner) == (Webhook.Status.ACTIVE, acme)


def test_a_retry_notice_belongs_to_the_organization(
    acme: Any, receiver: Callable[..., Any], deliver: Callable[..., None]
) -> None:
    make_webhook(acme)

    emit_one(acme)
    deliver(receiver(500, 200))

    notice = Event.objects.get(type="webhook.retry")
    assert notice.owner == acme
    assert set(Delivery.objects.values_list("state", flat=True)) == {"succeeded"}


def test_the_platforms_webhook_gets_every_organizations_events(
    acme: Any, globex: Any, receiver: Callable[..., Any], deliver: Callable[..., None]
) -> None:
    make_webhook(None)
    transport = receiver(200)

    events = [emit_one(owner).pk for owner in (acme, globex, None)]
    deliver(transport)

    assert sorted(envelope["id"] for envelope in transport.sent()) == sorted(events)


def test_a_test_event_belongs_to_the_organization(acme: Any) -> None:
    delivery = send_test_event(make_webhook(acme), "file.deleted")

    assert delivery.event is not None
    assert delivery.event.owner == acme


def test_a_user_cannot_own_an_event(amina: Any) -> None:
    with pytest.raises(InvalidOwnerError, match=r"of type User; pass an instance of organizations\.Organization"):
        emit("file.deleted", {"file_id": "f", "user_id": "u", "filename": "a"}, owner=amina)
