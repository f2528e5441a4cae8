"""Operational events for the platform's webhooks. They are never emitted about such deliveries themselves."""

from __future__ import annotations

import json

import pytest
from django.core import mail
from django.core.exceptions import ValidationError
from django.db import transaction

from webhooks_app import emit, send_test_event
from webhooks_app.delivery.engine import Engine
from webhooks_app.event_types import OPERATIONAL_EVENT_TYPES, registry
from webhooks_app.exceptions import UnknownEventTypeError
from webhooks_app.maintenance.notifications import emit_given_up
from webhooks_app.models import Delivery, Event, Webhook
from webhooks_app.transport import errors

from ...delivery.conftest import ImpatientTransport, ManualClock, Receiver
from ...support.rows import EVENT_TYPE, emit_one, make_webhook
from ..rollups.conftest import make_tally

pytestmark = pytest.mark.django_db
NAMES = [each.name for each in OPERATIONAL_EVENT_TYPES]


@pytest.fixture
def watcher(db):
    """A webhook of the platform that is subscribed to all operational events."""
    return make_webhook(None, *NAMES)


def told_to(webhook):
    deliveries = Delivery.objects.filter(webhook=webhook, kind="event").select_related("event").order_by("pk")
    return [(each.event.type, json.loads(each.event.body)["data"]) for each in deliveries]


def test_failing_recovery_and_disabling_of_a_webhook_emit_events(days, watcher):
    webhook = days.webhook

    make_tally(days.clock(), **{webhook.pk: {"refused_503": 3}})
    days.fail_until(3)
    days.succeed()
    days.look()
    days.webhook.disable("Enough.")

    about = {"webhook_id": webhook.pk, "url": webhook.url, "owner": str(webhook.owner_id)}
    (failing, warning, recovered, disabled) = told_to(watcher)
    assert [name for name, _ in (failing, recovered, disabled)] == NAMES[:3]
    cause = {"result": "http_status", "status_code": 503}
    assert failing[1].items() >= {**about, **cause, "given_up": 2, "is_warning": False, "waiting": 0}.items()
    assert warning[1].items() >= {**about, "given_up": 11, "is_warning": True}.items()
    assert failing[1]["failing_since"] == recovered[1]["failed_since"]
    assert disabled[1].items() >= {**about, "reason": "Enough."}.items()
    assert set(Event.objects.values_list("owner", flat=True)) == {None}


def test_no_event_notice_or_mail_tells_why_an_unverified_url_was_not_reached(days, watcher, settings):
    settings.WEBHOOKS_RETRY_NOTICES = True
    Webhook.objects.filter(pk=days.webhook.pk).update(status="pending", retry_notices=True)
    days.webhook.refresh_from_db()
    probes = [
        Delivery.objects.queue(webhook=days.webhook, kind="verification"),
        send_test_event(days.webhook, EVENT_TYPE),
    ]

    transport = ImpatientTransport(days.clock, errors.not_connected("redis.default.example"))
    Engine(transport=transport, clock=days.clock).run_until_idle(await_retries=True)
    days.look()

    assert set(Delivery.objects.values_list("pk", "state")) == {(probe.pk, "given_up") for probe in probes}
    assert (list(Event.objects.filter(is_test=False)), told_to(watcher), mail.outbox) == ([], [], [])
    days.clock.advance(600)
    days.look()
    (message,) = mail.outbox
    assert message.subject == f"The verification of webhook {days.webhook.pk} failed"
    assert "The URL could not be reached." in message.body
    assert "redis" not in message.body


def test_disabling_for_failing_emits_one_event(days, watcher):
    days.fail_until(6)

    told = [(name, data.get("is_warning")) for name, data in told_to(watcher)]
    assert told == [("webhook.failing", False), ("webhook.failing", True), ("webhook.disabled", None)]


def test_no_event_about_a_webhook_is_sent_to_itself(days):
    Webhook.objects.update(owner=None, event_types=[*NAMES, EVENT_TYPE])
    other = make_webhook(None, *NAMES)

    days.fail_until(6)

    assert [name for name, _ in told_to(other)] == ["webhook.failing"] * 2 + ["webhook.disabled"]
    assert told_to(days.webhook) == []


def test_an_event_without_subscribers_is_not_recorded(days):
    make_webhook(None, EVENT_TYPE)
    make_webhook(None, *NAMES, status="disabled")

    days.fail_until(6)

    assert not Event.objects.exists()


@pytest.fixture
def refuse(days):
    """Deliver to receivers that always refuse, and fold the results."""

    def refuse():
        clock = ManualClock()
        Engine(transport=ImpatientTransport(clock, Receiver(500)), clock=clock).run_until_idle()
        days.look()

    return refuse


def test_a_given_up_delivery_emits_an_event(days, watcher, refuse):
    event = emit_one(days.webhook.owner)
    refuse()

    ((name, data),) = told_to(watcher)
    assert name == "delivery.given_up"
    assert data.items() >= {"event_id": event.pk, "event_type": EVENT_TYPE, "attempts": 4}.items()
    assert data["last_result"] == "http_status"
    assert data["delivery_id"] == event.deliveries.get().pk


def test_a_given_up_operational_event_emits_no_further_event(days, watcher, refuse):
    other = make_webhook(None, *NAMES)
    emit_one(days.webhook.owner)

    for _ in range(3):
        refuse()

    assert [len(told_to(each)) for each in (watcher, other)] == [1, 1]


def test_without_given_up_deliveries_there_are_no_further_queries(days, watcher, django_assert_num_queries):
    with django_assert_num_queries(0):
        emit_given_up("default", [])


def test_an_account_cannot_subscribe_to_operational_events(owner):
    with pytest.raises(ValidationError, match=f"{NAMES[0]}: only a webhook without an account"):
        make_webhook(owner, EVENT_TYPE, NAMES[0])


def test_the_error_for_an_unknown_type_lists_only_types_for_accounts(owner):
    with pytest.raises(ValidationError) as error:
        make_webhook(owner, "ppt.lost")

    known = str(error.value).partition("Known types:")[2]
    assert EVENT_TYPE in known
    assert NAMES[1] not in known


@pytest.mark.parametrize("name", NAMES)
def test_only_the_app_emits_operational_events(owner, name):
    with pytest.raises(UnknownEventTypeError):
        emit(name, registry.get(name).example, owner=None)


def test_a_test_of_operational_events_is_for_webhooks_of_the_platform_only(owner, watcher):
    assert send_test_event(watcher, NAMES[0]).event.is_test
    with pytest.raises(UnknownEventTypeError):
        send_test_event(make_webhook(owner), NAMES[0])


def test_operational_events_are_rolled_back_with_their_cause(days, watcher):
    with transaction.atomic():
        days.webhook.disable("Enough.")
        transaction.set_rollback(True)

    assert told_to(watcher) == []
