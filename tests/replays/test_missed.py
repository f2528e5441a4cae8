"""The events that webhooks have missed, by the cause of their last attempts."""

from __future__ import annotations

from datetime import timedelta
from itertools import product
from typing import Any

import pytest
from django.utils import timezone

from webhooks_app.models import Delivery, DeliveryAttempt, Webhook
from webhooks_app.models.problem import Cause
from webhooks_app.operations.actors import PROJECT
from webhooks_app.operations.sending import redeliver
from webhooks_app.protocol.ids import new_id, new_ordered_id
from webhooks_app.replays.missed import CANCELLED, NEVER_QUEUED, count_missed, missed_events, still_missed

from ..support.rows import emit_one, end_deliveries, make_id_older, make_webhook

pytestmark = pytest.mark.django_db

UNAVAILABLE, TIMEOUT = Cause("http_status", 503), Cause("timeout", 0)


def give_up(webhook: Webhook, cause: Cause, **facts: Any) -> Delivery:
    event, now = emit_one(webhook.owner), timezone.now()
    Delivery.objects.filter(event=event).delete()
    ended = {"state": "given_up", "finished_at": now, "last_result": cause.result, "attempt_count": 1}
    delivery: Delivery = Delivery.objects.create(
        id=make_id_older(new_id("dlv", now), timedelta(minutes=5)),
        event=event,
        webhook=webhook,
        **ended,
        **facts,
    )
    answered = {"result": cause.result, "response_status": cause.code or None, "url": webhook.url}
    DeliveryAttempt.objects.create(delivery=delivery, number=1, started_at=now, **answered)
    return delivery


@pytest.fixture
def webhook(webhook: Webhook) -> Webhook:
    """A webhook that has not been stopped for long."""
    Webhook.objects.update(status_changed_at=timezone.now() - timedelta(days=60))
    webhook.refresh_from_db()
    return webhook


def missed(*webhooks: Webhook, is_for_owner: bool = False) -> dict[tuple[str, Cause], int]:
    found, unread = missed_events(webhooks, timezone.now() - timedelta(hours=1), is_for_owner=is_for_owner)
    assert unread == set()
    return dict(found)


def test_events_are_counted_by_webhook_and_cause(alice: Any, webhook: Webhook) -> None:
    other = make_webhook(alice, *webhook.event_types, url="https://other.example/hooks")
    other.status_changed_at = webhook.status_changed_at
    for cause in (UNAVAILABLE, UNAVAILABLE, TIMEOUT):
        give_up(webhook, cause)
    give_up(other, TIMEOUT)

    assert missed(webhook, other) == {(webhook.pk, UNAVAILABLE): 2, (webhook.pk, TIMEOUT): 1, (other.pk, TIMEOUT): 1}


@pytest.mark.parametrize(("again", "number"), [("pending", 0), ("succeeded", 0), ("given_up", 1)])
def test_an_event_that_is_sent_again_is_not_missed(webhook: Webhook, again: str, number: int) -> None:
    later = redeliver(give_up(webhook, UNAVAILABLE), actor=PROJECT)
    if again != "pending":
        end_deliveries(
            Delivery.objects.filter(pk=later.pk), state=again, finished_at=timezone.now(), last_result="timeout"
        )

    assert sum(missed(webhook).values()) == number


def test_a_hidden_cause_is_left_out_for_the_owner(webhook: Webhook) -> None:
    give_up(webhook, TIMEOUT, is_masked=True)

    assert missed(webhook) == {(webhook.pk, TIMEOUT): 1}
    assert missed(webhook, is_for_owner=True) == {}


STATES = ("pending", "succeeded", "given_up", "cancelled")


@pytest.mark.parametrize("states", [(), *product(STATES), *product(STATES, STATES)])
def test_the_counts_of_one_webhook_and_of_many_and_the_list_agree(webhook: Webhook, states: tuple[str, ...]) -> None:
    Webhook.objects.update(status="disabled", status_changed_at=timezone.now())
    webhook.refresh_from_db()
    event = emit_one(webhook.owner)
    first = None
    for state in states:
        ended = None if state == "pending" else timezone.now()
        fields = {"state": state, "finished_at": ended, "redelivery_of": first, "last_result": "timeout"}
        delivery = Delivery.objects.create(
            id=new_ordered_id("dlv", timezone.now()), event=event, webhook=webhook, **fields
        )
        first = first or delivery

    expected = 0 if {"pending", "succeeded"} & set(states) else 1

    assert count_missed(webhook, since=webhook.created_at).number == expected
    assert sum(missed(webhook).values()) == expected
    listed = still_missed(webhook.deliveries.all()).order_by().values("event").distinct()
    assert listed.count() == (expected if states else 0)  # a list of deliveries has none that were never queued


def test_events_cancelled_with_their_webhook_are_missed(webhook: Webhook) -> None:
    """A change of the URL that fails its verification."""
    tried, untried = emit_one(webhook.owner), emit_one(webhook.owner)
    Delivery.objects.filter(event=tried).update(last_result="timeout", attempt_count=1)
    webhook.fail("unreachable")
    never = emit_one(webhook.owner)
    webhook.refresh_from_db()

    assert missed(webhook) == {(webhook.pk, TIMEOUT): 1, (webhook.pk, CANCELLED): 1, (webhook.pk, NEVER_QUEUED): 1}
    assert count_missed(webhook, since=webhook.created_at).number == len({tried, untried, never})
