"""Deletion of all data of an owner, by ``forget_owner`` and with the owner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.support.engines import at_work
from tests.support.rows import EVENT_TYPE, emit_one, make_webhook
from tests.support.waiting import wait_until
from webhooks_app import emit, forget_events, forget_owner, send_test_event
from webhooks_app.conf import transport_options
from webhooks_app.delivery.engine import Engine
from webhooks_app.maintenance import forgetting
from webhooks_app.maintenance.rollups.folding import fold
from webhooks_app.models import (
    ApiKey,
    AuditEntry,
    Delivery,
    DeliveryAttempt,
    Event,
    QueueEntry,
    Replay,
    Webhook,
)
from webhooks_app.models.rollup import Rollup, id_of_account
from webhooks_app.operations import replays
from webhooks_app.operations.actors import PROJECT, ApiCaller
from webhooks_app.transport.memory import MemoryTransport

PATHS = {
    Webhook: "owner",
    Event: "owner",
    Delivery: "webhook__owner",
    DeliveryAttempt: "delivery__webhook__owner",
    QueueEntry: "webhook__owner",
    Replay: "webhook__owner",
    ApiKey: "owner",
}


def deliver() -> None:
    Engine(transport=MemoryTransport(transport_options(), answer=200)).run_until_idle()


def populate(owner: Any) -> Webhook:
    """Create rows of every kind for an owner: delivered, pending and redelivered."""
    webhook = make_webhook(owner)
    ApiKey.objects.make(owner=owner)
    for _ in range(3):
        emit_one(owner)
    deliver()
    first = webhook.deliveries.order_by("pk").first()
    assert first is not None
    first.redeliver(requested_by=owner)
    send_test_event(webhook, "file.deleted")
    emit_one(owner)
    replays.plan(webhook, actor=PROJECT)
    return webhook


def rows(owner: Any = None) -> dict[str, int]:
    """Return the number of rows by model, for one owner or all."""
    queries = {model: {path: owner} if owner else {} for model, path in PATHS.items()}
    return {model.__name__: model._default_manager.filter(**query).count() for model, query in queries.items()}


def forget(owner: Any) -> None:
    forget_owner(owner)


def delete(owner: Any) -> None:
    owner.delete()


def delete_together(owner: Any) -> None:
    get_user_model().objects.filter(pk=owner.pk).delete()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("remove", [forget, delete, delete_together])
def test_all_rows_of_the_owner_are_deleted_and_no_others(alice: Any, bob: Any, remove: Callable[[Any], None]) -> None:
    populate(bob)
    populate(alice)
    kept = rows(bob)
    assert 0 not in rows(alice).values()

    remove(alice)

    assert rows() == kept
    assert not Webhook.objects.exclude(owner=bob).exists()


@pytest.mark.django_db
def test_the_counts_of_the_owner_are_deleted(alice: Any, bob: Any) -> None:
    for owner in (alice, bob):
        populate(owner)
    deliver()
    fold("default")
    ids = {owner: id_of_account(owner.pk) for owner in (alice, bob)}
    assert set(ids.values()) <= set(Rollup.objects.values_list("webhook_id", flat=True))

    forget_owner(alice)

    assert not Rollup.objects.filter(webhook_id=ids[alice]).exists()
    assert Rollup.objects.filter(webhook_id=ids[bob]).exists()


@pytest.mark.django_db
@pytest.mark.parametrize("remove", [forget, delete])
def test_pending_deliveries_of_the_owners_events_to_the_platform_are_deleted(
    alice: Any, bob: Any, remove: Callable[[Any], None]
) -> None:
    platform = make_webhook(None)
    emit_one(alice)
    kept = emit_one(bob)

    remove(alice)

    assert [delivery.event for delivery in platform.deliveries.all()] == [kept]
    assert QueueEntry.objects.count() == 1


@pytest.mark.django_db
def test_the_numbers_of_deleted_rows_are_returned_and_the_owner_remains(alice: Any) -> None:
    make_webhook(alice)
    ApiKey.objects.make(owner=alice)
    for _ in range(3):
        emit_one(alice)
    done: list[int] = []

    forgotten = forget_owner(alice, progress=done.append)

    assert str(forgotten) == "1 webhook, 1 API key, 3 events, 3 deliveries, 0 attempts"
    assert sum(done) == 6
    alice.refresh_from_db()


@pytest.mark.django_db
def test_single_events_are_deleted_with_their_deliveries(alice: Any) -> None:
    webhook = make_webhook(alice)
    emit(EVENT_TYPE, {"error": "sent"}, owner=alice, references=["user_7"])
    deliver()
    emit(EVENT_TYPE, {"error": "pending"}, owner=alice, references=["user_7", "user_8"])
    kept = emit_one(alice)

    forgotten = forget_events(Event.objects.filter(references__value__in=["user_7", "user_8"]))

    assert (forgotten.events, forgotten.deliveries, forgotten.attempts) == (2, 2, 1)
    assert list(Event.objects.all()) == [kept]
    assert [entry.event_id for entry in QueueEntry.objects.all()] == [kept.pk]
    deliver()
    assert [delivery.state for delivery in webhook.deliveries.all()] == ["succeeded"]


@pytest.mark.django_db
def test_a_redelivery_that_remains_after_its_first_delivery_refers_to_none(alice: Any) -> None:
    make_webhook(alice)
    emit_one(alice)
    Delivery.objects.update(state="given_up")
    first = Delivery.objects.get()
    again = first.redeliver()

    forgetting.delete_rows("default", Delivery, [first.pk])

    assert list(Delivery.objects.values_list("pk", "redelivery_of")) == [(again.pk, None)]


@pytest.mark.django_db
def test_forgetting_events_requires_the_permission_for_all_webhooks(alice: Any) -> None:
    event = emit_one(alice)

    with pytest.raises(PermissionDenied):
        forget_events(Event.objects.all(), actor=ApiCaller(account=alice, owner=alice, scopes=ApiKey.Scope.values))
    assert list(Event.objects.all()) == [event]


@pytest.mark.django_db
def test_the_webhooks_are_stopped_before_anything_is_deleted(alice: Any) -> None:
    webhook = make_webhook(alice)
    emit_one(alice)
    seen: list[tuple[bool, bool]] = []

    def look(count: int) -> None:
        seen.append((Webhook.objects.active().exists(), ApiKey.objects.exists()))

    forget_owner(alice, progress=look)

    assert seen == [(False, False)]
    assert AuditEntry.objects.about(webhook).filter(action="webhook.deleted").exists()


@pytest.mark.django_db
def test_forgetting_an_owner_requires_the_permission_for_all_webhooks(alice: Any) -> None:
    with pytest.raises(PermissionDenied):
        forget_owner(alice, actor=ApiCaller(account=alice, owner=alice))


@pytest.mark.django_db
def test_the_audit_entries_remain_without_their_owner(alice: Any) -> None:
    webhook = make_webhook(alice)

    alice.delete()

    assert set(AuditEntry.objects.about(webhook).values_list("owner", flat=True)) == {None}


@pytest.mark.django_db
def test_an_owner_is_deleted_with_few_statements(alice: Any) -> None:
    make_webhook(alice)
    for _ in range(100):
        emit_one(alice)

    with CaptureQueriesContext(connection) as queries:
        alice.delete()

    assert len(queries) < 80


@pytest.mark.django_db(transaction=True)
def test_an_owner_is_deleted_while_retries_run(django_user_model: Any) -> None:
    owners = [django_user_model.objects.create_user(f"owner-{number}") for number in range(15)]
    for owner in owners:
        make_webhook(owner)
        for _ in range(10):
            emit_one(owner)
    engine = Engine(transport=MemoryTransport(transport_options(), answer=500))

    with at_work(engine):
        for owner in owners:
            wait_until(lambda owner=owner: DeliveryAttempt.objects.filter(delivery__webhook__owner=owner).exists())
            owner.delete()

    assert rows() == dict.fromkeys(rows(), 0)


@pytest.mark.django_db(transaction=True)
def test_a_result_after_the_deletion_of_the_owner_is_ignored(alice: Any, caplog: pytest.LogCaptureFixture) -> None:
    make_webhook(alice)
    emit_one(alice)

    def delete_owner(request: Any) -> int:
        alice.delete()
        return 500

    Engine(transport=MemoryTransport(transport_options(), answer=delete_owner)).run_until_idle()

    assert rows() == dict.fromkeys(rows(), 0)
    assert "could not be recorded" not in caplog.text
