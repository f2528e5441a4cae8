"""Pruning deletes what is old and final, and nothing else."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from webhooks_app import retention
from webhooks_app.models import Delivery, DeliveryAttempt, Event, Webhook

from ..making import emit_one, make_webhook

pytestmark = pytest.mark.django_db

YEAR = timedelta(days=365)


@pytest.fixture
def alice(django_user_model):
    return django_user_model.objects.create_user("alice")


def history(owner, state, age):
    """Make an event with one attempt of a delivery in this state, all of this age."""
    event = emit_one(owner)
    then = timezone.now() - age
    Event.objects.filter(pk=event.pk).update(created_at=then)
    delivery = Delivery.objects.get(event=event)
    Delivery.objects.filter(pk=delivery.pk).update(state=state, created_at=then)
    DeliveryAttempt.objects.create(delivery=delivery, number=1, result="succeeded", started_at=then, url="x")


def test_old_and_final_rows_go(alice):
    make_webhook(alice)
    history(alice, "succeeded", YEAR)
    history(alice, "given_up", YEAR)

    pruned = retention.prune()

    assert (pruned.attempts, pruned.deliveries, pruned.events) == (2, 2, 2)
    assert not Event.objects.exists()


def test_what_is_not_final_stays_however_old(alice):
    make_webhook(alice)
    history(alice, "pending", YEAR)

    assert retention.prune().attempts == 0
    assert (Event.objects.count(), Delivery.objects.count(), DeliveryAttempt.objects.count()) == (1, 1, 1)


def test_attempts_go_before_deliveries_and_events(alice):
    make_webhook(alice)
    history(alice, "succeeded", timedelta(days=60))

    retention.prune()

    assert (Event.objects.count(), Delivery.objects.count(), DeliveryAttempt.objects.count()) == (1, 1, 0)


def test_a_deleted_webhook_goes_with_the_last_of_its_history(alice):
    make_webhook(alice).soft_delete()
    Webhook.objects.update(deleted_at=timezone.now() - YEAR)
    Delivery.objects.update(created_at=timezone.now() - YEAR)
    make_webhook(alice)

    retention.prune()

    assert Webhook.objects.count() == 1


def test_progress_is_told_batch_by_batch(alice, monkeypatch):
    monkeypatch.setattr(retention, "BATCH_SIZE", 2)
    make_webhook(alice)
    for _ in range(5):
        history(alice, "succeeded", timedelta(days=60))
    batches = []

    retention.prune(progress=batches.append)

    assert batches == [2, 2, 1]
