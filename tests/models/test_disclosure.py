"""Rows as their owner may see them, and the decision that is stored with an attempt."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import FieldError
from django.utils import timezone

from tests.delivery.conftest import ImpatientTransport, ManualClock
from tests.support.masked import CAUSES, make_rows, set_cause
from tests.support.rows import EVENT_TYPE, emit_one, make_webhook
from webhooks_app import send_test_event
from webhooks_app.delivery.engine import Engine
from webhooks_app.models import AuditEntry, Delivery, DeliveryAttempt, Webhook
from webhooks_app.models.disclosure import UNREACHABLE, UNREACHABLE_MESSAGE
from webhooks_app.models.hold import HoldReason, holds_of
from webhooks_app.pages.display import last_attempts
from webhooks_app.reasons import code_of
from webhooks_app.signals import attempt_made
from webhooks_app.transport import errors

pytestmark = pytest.mark.django_db

REFUSED = errors.not_connected("redis.default.example")


def deliver(answer: Any) -> None:
    clock = ManualClock()
    Engine(transport=ImpatientTransport(clock, answer), clock=clock).run_until_idle(await_retries=False)


def masked() -> list[tuple[bool, bool]]:
    """Return for each delivery whether it and its attempts are masked."""
    rows = Delivery.objects.filter(kind="test").prefetch_related("attempts")
    return [(row.is_masked, any(attempt.is_masked for attempt in row.attempts.all())) for row in rows]


@pytest.mark.parametrize(
    "read",
    [list, lambda rows: rows.iterator(), lambda rows: [rows.last()], lambda rows: rows.order_by("pk")[:2]],
    ids=["list", "iterator", "last", "slice"],
)
def test_every_way_to_read_a_queryset_masks_its_rows(rows, read):
    handshake = Delivery.objects.for_owner().filter(pk=rows[0].pk)

    assert [each.last_result for each in read(handshake)] == [UNREACHABLE]


@pytest.mark.parametrize(
    ("status", "answer", "is_masked"),
    [
        pytest.param("pending", REFUSED, True, id="unverified"),
        pytest.param("failed", REFUSED, True, id="failed"),
        pytest.param("active", REFUSED, False, id="verified"),
        pytest.param("pending", 500, False, id="answered"),
    ],
)
def test_the_decision_is_recorded_with_an_attempt(alice, status, answer, is_masked):
    webhook = make_webhook(alice, status="active")
    Webhook.objects.update(status=status)
    send_test_event(webhook, EVENT_TYPE)

    deliver(answer)

    assert masked() == [(is_masked, is_masked)]


def test_the_cause_for_an_event_is_never_masked(alice):
    make_webhook(alice)
    emit_one(alice)

    deliver(REFUSED)

    assert DeliveryAttempt.objects.filter(result="connection_error").exists()
    assert not DeliveryAttempt.objects.filter(is_masked=True).exists()


@pytest.mark.parametrize(("before", "after"), [("pending", "active"), ("active", "pending")])
def test_a_later_change_of_the_status_does_not_change_the_decision(alice, before, after):
    webhook = make_webhook(alice)
    Webhook.objects.update(status=before)
    send_test_event(webhook, EVENT_TYPE)
    deliver(REFUSED)

    Webhook.objects.update(status=after)

    shown = Delivery.objects.for_owner().get(kind="test").last_result
    assert shown == (UNREACHABLE if before == "pending" else "connection_error")


def test_handlers_of_the_signal_see_the_cause_and_the_decision(alice):
    seen = []
    attempt_made.connect(lambda attempt, **kwargs: seen.append((attempt.result, attempt.is_masked)), weak=False)
    send_test_event(make_webhook(alice, status="pending"), EVENT_TYPE)

    deliver(REFUSED)
    attempt_made.receivers.clear()

    assert seen == [("connection_error", True)] * 2


@pytest.fixture
def rows(alice: Any) -> tuple[Delivery, Delivery]:
    made = make_rows(make_webhook(alice), EVENT_TYPE)
    set_cause(CAUSES[0])
    return made


def test_masked_rows_have_no_facts_about_the_network(rows):
    handshake, test = (Delivery.objects.for_owner().get(pk=row.pk) for row in rows)
    attempts = handshake.shown_attempts()
    facts = {(each.result, each.message, each.duration_ms, each.peer, each.response_body) for each in attempts}

    assert (handshake.last_result, handshake.finished_at) == (UNREACHABLE, None)
    assert (test.due_at, test.claimed_at, test.leased_until) == (None, None, None)
    assert facts == {(UNREACHABLE, UNREACHABLE_MESSAGE, None, "", "")}
    assert [each.started_at is None for each in attempts] == [False, True]
    assert [hold.reason for hold in holds_of([handshake, test], now=timezone.now()) if hold] == [HoldReason.HIDDEN] * 2


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.name_unknown("nowhere.example.com"), "unreachable_name"),
        (errors.certificate_refused(10), "unreachable_certificate"),
        (errors.not_connected("receiver.example.com"), "unreachable"),
        (errors.connect_timed_out(30), "unreachable"),
        (errors.name_timed_out("slow.example.com", 5), "unreachable"),
        (errors.address_refused("internal.example.com"), "unreachable"),
        (errors.handshake_failed(), "unreachable"),
    ],
    ids=["name", "certificate", "refused", "timeout", "slow DNS", "internal", "no TLS"],
)
def test_of_an_unverified_url_only_a_wrong_name_and_certificate_are_told(alice, error, code):
    webhook = make_webhook(alice, status="pending")

    clock = ManualClock()
    Engine(transport=ImpatientTransport(clock, error), clock=clock).run_until_idle()

    webhook.refresh_from_db()
    attempts = Delivery.objects.for_owner().get(kind="verification").shown_attempts()
    assert (webhook.status, code_of(webhook.status_reason)) == ("failed", code)
    assert {(attempt.result, attempt.message_code, attempt.duration_ms) for attempt in attempts} == {
        (UNREACHABLE, code, None)
    }
    assert webhook.shown_status_changed_at is None
    assert not AuditEntry.objects.for_owner().filter(action="webhook.verification_failed").exists()


def test_attempts_can_be_read_without_their_delivery(rows):
    attempts = DeliveryAttempt.objects.select_related("delivery").for_owner()

    assert {attempt.result for attempt in attempts} == {UNREACHABLE}


def test_the_stored_facts_remain(rows):
    list(Delivery.objects.for_owner())
    handshake = Delivery.objects.get(pk=rows[0].pk)

    assert handshake.last_result == CAUSES[0].result
    assert [attempt.peer for attempt in handshake.shown_attempts()] == [CAUSES[0].peer] * 2


def test_a_filter_by_result_finds_what_is_shown(rows):
    everything, shown = Delivery.objects.all(), Delivery.objects.for_owner()
    results = (CAUSES[0].result, UNREACHABLE)

    assert [everything.with_result(result).count() for result in results] == [2, 0]
    assert [shown.with_result(result).count() for result in results] == [0, 2]


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(lambda rows: rows.filter(last_result="timeout"), id="filter"),
        pytest.param(lambda rows: rows.filter(attempts__peer="10.9.8.7"), id="filter by attempts"),
        pytest.param(lambda rows: rows.exclude(finished_at__gt=timezone.now()), id="exclude"),
        pytest.param(lambda rows: rows.order_by("-finished_at"), id="order"),
        pytest.param(lambda rows: rows.values_list("pk", "last_result"), id="values_list"),
        pytest.param(lambda rows: rows.values(), id="values"),
    ],
)
def test_masked_fields_cannot_be_used_in_a_query(rows, read):
    with pytest.raises(FieldError, match="masked for owners"):
        read(Delivery.objects.for_owner().filter(kind="test"))


def test_an_answer_to_a_test_is_shown_if_the_url_was_verified_before(alice):
    webhook = make_webhook(alice)
    send_test_event(webhook, EVENT_TYPE)
    deliver(500)
    DeliveryAttempt.objects.update(response_body="No such order.")

    def shown():
        (attempt,) = Delivery.objects.for_owner().get(kind="test").shown_attempts()
        return attempt.response_body

    assert shown() == "No such order."
    after = DeliveryAttempt.objects.latest("started_at").started_at + timedelta(microseconds=1)
    Webhook.objects.update(status_changed_at=after)
    assert shown() == ""
    Webhook.objects.update(status_changed_at=webhook.created_at, url="https://elsewhere.example.com/")
    assert shown() == ""
    Webhook.objects.update(url=webhook.url, status="disabled")
    assert shown() == ""


def test_a_list_of_tests_reads_only_some_facts_of_their_attempts(alice):
    send_test_event(make_webhook(alice), EVENT_TYPE)
    deliver(500)
    (delivery,) = Delivery.objects.for_owner().filter(kind="test").select_related("webhook")

    assert last_attempts([delivery])[delivery.pk].response_status == 500


def test_an_answer_to_a_probe_of_an_unverified_url_is_shown_by_its_status_only(alice):
    send_test_event(make_webhook(alice, status="pending"), EVENT_TYPE)
    deliver(500)
    DeliveryAttempt.objects.update(response_body="internal", response_headers=[["Server", "x"]], retry_after="9")

    (attempt,) = Delivery.objects.for_owner().get(kind="test").shown_attempts()

    assert (attempt.response_status, attempt.result, attempt.hides_answer) == (500, "http_status", True)
    assert (attempt.response_body, attempt.response_headers, attempt.retry_after) == ("", [], "")


def test_the_time_of_a_failed_verification_is_hidden(rows):
    webhook = Webhook.objects.get()

    assert webhook.shown_status_changed_at is None
    assert AuditEntry.objects.filter(action="webhook.verification_failed").count() == 1
    assert not AuditEntry.objects.for_owner().filter(action="webhook.verification_failed").exists()
