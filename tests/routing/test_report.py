"""The reasons why an event was sent to a webhook or not, independent of later changes."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.api.conftest import client_of
from tests.support.plans import rows_read, update_statistics
from tests.support.rows import EVENT_TYPE, deliveries, emit_one, end_deliveries, make_older, make_webhook
from webhooks_app import send_test_event
from webhooks_app.models import AuditEntry, Delivery, Event, Replay, Webhook
from webhooks_app.operations import lifecycle
from webhooks_app.operations.actors import PROJECT
from webhooks_app.operations.lifecycle import start_verification
from webhooks_app.operations.registration import update_webhook
from webhooks_app.protocol.ids import first_id_at, new_id
from webhooks_app.routing import report as decisions
from webhooks_app.routing.report import decide

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


def change(webhook, **fields):
    update_webhook(webhook, actor=PROJECT, **fields)


def age(webhook, hours):
    """Shift the webhook's history into the past."""
    Webhook.objects.filter(pk=webhook.pk).update(created_at=timezone.now() - hours * HOUR)
    for number, entry in enumerate(AuditEntry.objects.about(webhook).order_by("id")):
        then = first_id_at("aud", timezone.now() - hours * HOUR)
        AuditEntry.objects.filter(pk=entry.pk).update(id=f"{then[:-20]}{number:04x}{entry.pk[-16:]}")


def emitted(owner, hours=1):
    return make_older(emit_one(owner), hours * HOUR)


def reasons(event, **options):
    return [decision.reason.value for decision in decide(event, **options)]


def nothing(webhook):
    """Do nothing."""


def unsubscribe(webhook):
    change(webhook, event_types=["file.deleted"])


def subscribe(webhook):
    change(webhook, event_types=[EVENT_TYPE])


def disable(webhook):
    webhook.disable("Too slow.")


def enable(webhook):
    lifecycle.enable(webhook, actor=PROJECT)
    webhook.activate()


def fail(webhook):
    webhook.fail("No answer.")


def verify(webhook):
    webhook.fail("No answer.")
    start_verification(webhook, actor=PROJECT)


def verified(webhook):
    webhook.activate()


def move(webhook):
    change(webhook, url=f"{webhook.url}2")


def delete(webhook):
    webhook.soft_delete()
    Webhook.objects.filter(pk=webhook.pk).update(deleted_at=timezone.now() - 2 * HOUR)


def delete_now(webhook):
    webhook.soft_delete()


CASES = {
    "sent": ([nothing], [nothing], "sent"),
    "sent, then disabled": ([nothing], [disable], "sent"),
    "sent, then deleted": ([nothing], [delete_now], "sent"),
    "sent, then unsubscribed": ([nothing], [unsubscribe], "sent"),
    "never subscribed": ([unsubscribe], [nothing], "not_subscribed"),
    "subscribed since": ([unsubscribe], [subscribe], "not_subscribed"),
    "subscribed and unsubscribed since": ([unsubscribe], [subscribe, unsubscribe], "not_subscribed"),
    "disabled": ([disable], [nothing], "disabled"),
    "enabled since": ([disable], [enable], "disabled"),
    "enabled and disabled since": ([disable], [enable, disable], "disabled"),
    "pending": ([verify], [nothing], "pending"),
    "verified since": ([verify], [verified], "pending"),
    "moved": ([move], [nothing], "sent"),
    "failed since": ([verify], [fail], "pending"),
    "failed": ([verify, fail], [nothing], "failed"),
    "failed, verified since": ([verify, fail], [verify, verified], "failed"),
    "deleted": ([delete], [nothing], "deleted"),
    "disabled and not subscribed": ([unsubscribe, disable], [subscribe, enable], "not_subscribed"),
    "paused": ([lambda webhook: webhook.pause()], [nothing], "sent"),
}


@pytest.mark.parametrize(("before", "since", "reason"), CASES.values(), ids=CASES)
def test_the_reason_reflects_the_time_of_the_event(alice, before, since, reason):
    webhook = make_webhook(alice)
    for step in before:
        step(webhook)
    age(webhook, hours=2)
    event = emitted(alice)
    for step in since:
        step(webhook)

    (decision,) = decide(event)

    assert (decision.webhook, decision.reason) == (webhook, reason)
    assert decision.is_sent == (reason == "sent")


def test_a_webhook_registered_after_the_event_has_that_reason(alice):
    event = emitted(alice)
    make_webhook(alice)

    assert reasons(event) == ["registered_later"]


def test_a_later_delivery_is_reported_as_a_replay(alice):
    webhook = make_webhook(alice, status="disabled")
    age(webhook, hours=2)
    event = emitted(alice)
    Delivery.objects.create(event=event, webhook=webhook)

    assert reasons(event) == ["replayed"]


def test_a_replay_soon_after_the_event_is_recognized(alice):
    webhook = make_webhook(alice)
    Webhook.objects.update(created_at=timezone.now() - HOUR)
    event = emit_one(alice)
    Delivery.objects.all().delete()
    now = timezone.now()
    replay = Replay.objects.create(webhook=webhook, since=now - HOUR, until=now)
    Delivery.objects.create(event=event, webhook=webhook, replay=replay)

    assert reasons(event) == ["replayed"]


def test_a_webhook_gets_no_events_about_itself(alice):
    watcher, itself = make_webhook(None, "webhook.disabled"), make_webhook(None, "webhook.disabled")
    itself.disable("Enough.")
    event = Event.objects.get(type="webhook.disabled")

    found = {decision.webhook: decision.reason.value for decision in decide(event, with_platform=True)}

    assert found == {watcher: "sent", itself: "about_itself"}


def test_a_redelivery_does_not_hide_the_first_delivery(alice):
    age(make_webhook(alice), hours=2)
    event = emitted(alice)
    end_deliveries(state="given_up")
    (first,) = deliveries()
    first.redeliver()

    (decision,) = decide(event)

    assert (decision.reason, decision.delivery) == ("sent", first)


def test_a_change_without_an_audit_entry_is_reported_as_not_recorded(alice):
    webhook = make_webhook(alice, status="disabled")
    age(webhook, hours=2)
    event = emitted(alice)
    Webhook.objects.update(status="active")

    assert reasons(event) == ["not_recorded"]


@pytest.mark.parametrize(("limit", "expected"), [("retention", "not_recorded"), ("number", "too_many_changes")])
def test_a_reason_before_the_audit_log_is_not_guessed(alice, settings, monkeypatch, limit, expected):
    webhook = make_webhook(alice, status="disabled")
    age(webhook, hours=72)
    event = emitted(alice, hours=48)
    enable(webhook)
    if limit == "retention":
        settings.WEBHOOKS_AUDIT_RETENTION_DAYS = 1
    else:
        monkeypatch.setattr(decisions, "MAX_CHANGES", 1)

    assert reasons(event) == [expected]


@pytest.mark.only_on("postgresql")
@pytest.mark.usefixtures("new_tables")
def test_changes_of_other_webhooks_are_not_read(alice):
    event = emit_one(alice)
    own = Webhook.objects.bulk_create(
        Webhook(owner=alice, url="https://a.example/", status="active") for _ in range(150)
    )
    subjects = [*(each.pk for each in own), *(new_id("wh") for _ in range(1350))]
    facts = {"action": "webhook.changed", "changes": {"url": ["", ""]}, "via": "console"}
    AuditEntry.objects.bulk_create(
        [AuditEntry(subject=subjects[number % 1500], **facts) for number in range(30_000)], batch_size=5000
    )
    update_statistics()

    assert rows_read(lambda: decide(event)) < 3000


def test_tests_and_pauses_do_not_hide_the_changes_of_a_webhook(alice, monkeypatch):
    webhook = make_webhook(alice, status="disabled")
    age(webhook, hours=72)
    event = emitted(alice, hours=48)
    enable(webhook)
    for _ in range(2):
        lifecycle.pause(webhook, actor=PROJECT)
        lifecycle.resume(webhook, actor=PROJECT)
    changing = AuditEntry.objects.about(webhook).filter(action__in=decisions.CHANGING).count()
    monkeypatch.setattr(decisions, "MAX_CHANGES", changing)

    assert reasons(event) == ["disabled"]


def test_a_test_concerns_only_its_webhook(alice):
    webhook, _ = make_webhook(alice), make_webhook(alice)
    event = Event.objects.get(pk=send_test_event(webhook, EVENT_TYPE).event_id)

    assert [decision.webhook for decision in decide(event)] == [webhook]


def test_the_platforms_webhooks_are_included_on_request(alice):
    own, platform = make_webhook(alice), make_webhook(None)
    event = emit_one(alice)

    assert [decision.webhook for decision in decide(event)] == [own]
    assert {decision.webhook for decision in decide(event, with_platform=True)} == {own, platform}
    assert decide(emit_one(None)) == []


def test_recipients_are_listed_first(alice, monkeypatch):
    monkeypatch.setattr(decisions, "MAX_DECISIONS", 3)
    got_it, *others = [make_webhook(alice, status=status) for status in ("active", *["disabled"] * 3)]
    others[-1].soft_delete()
    age(got_it, hours=2)
    event = emitted(alice)

    assert [decision.webhook for decision in decide(event)] == [got_it, others[1], others[0]]


def test_the_report_takes_five_queries_for_any_number_of_webhooks(alice):
    webhooks = [make_webhook(alice, status=status) for status in ["active", "disabled"] * 10]
    event = emitted(alice)
    for webhook in webhooks:
        change(webhook, description="changed")

    with CaptureQueriesContext(connection) as queries:
        found = decide(event)

    assert len(found) == 20
    assert len(queries) == 5


def test_the_api_returns_the_decisions(alice):
    sent, silent = make_webhook(alice), make_webhook(alice, "file.deleted")
    for webhook in (sent, silent):
        age(webhook, hours=2)
    event = emitted(alice)

    answer = client_of(alice).call("GET", f"/v1/events/{event.pk}/decisions")

    assert answer.json() == {
        "next": None,
        "previous": None,
        "results": [
            {"webhook_id": sent.pk, "sent": True, "reason": "sent", "detail": "", "delivery_id": deliveries()[0].pk},
            {"webhook_id": silent.pk, "sent": False, "reason": "not_subscribed", "detail": "", "delivery_id": None},
        ],
    }


def test_failures_and_the_newest_deliveries_are_reported_of_very_many(alice, monkeypatch):
    monkeypatch.setattr(decisions, "MAX_DECISIONS", 2)
    for _ in range(4):
        make_webhook(alice)
    event = emit_one(alice)
    _, failed, _, newest = event.deliveries.order_by("pk")
    event.deliveries.filter(pk=failed.pk).update(state="given_up")

    assert {decision.delivery for decision in decide(event)} == {failed, newest}
