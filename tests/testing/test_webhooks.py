"""The fixture ``webhooks``."""

from __future__ import annotations

import json
from datetime import timedelta
from itertools import count, pairwise
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import transaction
from django.test import TestCase

from tests.support.retries import MINUTE
from webhooks_app.emission import NewEvent, emit, emit_many
from webhooks_app.event_types import registry
from webhooks_app.exceptions import UnknownEventTypeError
from webhooks_app.models import Delivery, DeliveryAttempt, Event, Webhook
from webhooks_app.operations.registration import register_webhook
from webhooks_app.operations.sending import send_test_event
from webhooks_app.signals import deliveries_created
from webhooks_app.testing import (
    ManualClock,
    Webhooks,
    WebhooksMixin,
    containing,
    instance_of,
    matching,
    satisfying,
)
from webhooks_app.transport import ErrorClass, Response, TransportError

from ..support.rows import EVENT_TYPE, emit_one


@pytest.fixture
def owner(django_user_model: Any) -> Any:
    return django_user_model.objects.create_user("amina")


def test_emitted_events_are_available(webhooks: Webhooks, owner: Any) -> None:
    event = emit(EVENT_TYPE, {"error": "No outline", "ppt_id": "ppt_1"}, owner=owner)

    assert webhooks.emitted() == webhooks.emitted(EVENT_TYPE) == webhooks.emitted(owner=owner) == [event]
    assert webhooks.emitted("file.deleted") == webhooks.emitted(owner=None) == []
    assert webhooks.assert_emitted(EVENT_TYPE, {"ppt_id": "ppt_1"}, owner=owner) == event


def test_events_of_one_millisecond_are_in_the_order_of_their_emission(webhooks: Webhooks, owner: Any) -> None:
    events = emit_many(NewEvent(EVENT_TYPE, {"error": str(number)}, owner=owner) for number in range(20))

    assert webhooks.emitted() == events


@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param({"event_type": "file.deleted"}, id="another type"),
        pytest.param({"event_type": EVENT_TYPE, "data": {"error": "Other"}}, id="other data"),
        pytest.param({"event_type": EVENT_TYPE, "data": {"ppt_id": None}}, id="a field that is not there"),
        pytest.param({"event_type": EVENT_TYPE, "owner": None}, id="another owner"),
        pytest.param({"event_type": EVENT_TYPE, "times": 2}, id="more often"),
    ],
)
def test_a_missing_event_fails_the_test_and_lists_the_emitted_ones(
    webhooks: Webhooks, owner: Any, wanted: dict[str, Any]
) -> None:
    emit_one(owner)

    with pytest.raises(AssertionError, match="were emitted") as caught:
        webhooks.assert_emitted(**wanted)

    assert f'{EVENT_TYPE} of amina: {{"error": "No outline"}}' in str(caught.value)


def test_an_additional_event_fails_the_test(webhooks: Webhooks, owner: Any) -> None:
    emit_one(owner)
    emit_one(owner)

    with pytest.raises(AssertionError, match="2 of 1 expected"):
        webhooks.assert_emitted(EVENT_TYPE)
    webhooks.assert_emitted(EVENT_TYPE, times=2)


def test_the_absence_of_events_can_be_asserted(webhooks: Webhooks, owner: Any) -> None:
    webhooks.assert_not_emitted()
    emit_one(owner)

    webhooks.assert_not_emitted("file.deleted")
    for arguments in ({}, {"event_type": EVENT_TYPE}, {"owner": owner}):
        with pytest.raises(AssertionError, match="was emitted"):
            webhooks.assert_not_emitted(**arguments)


def test_a_rolled_back_event_does_not_count_as_emitted(webhooks: Webhooks, owner: Any) -> None:
    with transaction.atomic():
        emit_one(owner)
        transaction.set_rollback(True)

    webhooks.assert_not_emitted()


def test_a_delivery_is_the_signed_envelope(webhooks: Webhooks, owner: Any) -> None:
    webhooks.register(owner, EVENT_TYPE)
    event = emit_one(owner)

    [request] = webhooks.deliver()

    assert request.event.id == event.id
    assert request.body == event.body.encode()
    assert request.headers["X-Webhook-Event"] == EVENT_TYPE
    assert Delivery.objects.get().state == Delivery.State.SUCCEEDED


def test_retries_are_made_at_their_times_without_waiting(webhooks: Webhooks, owner: Any) -> None:
    webhooks.register(owner, EVENT_TYPE, retry_notices=False)
    webhooks.receiver.answers = (500, 503, 404, 200)
    emit_one(owner)

    requests = webhooks.deliver()

    gaps = [later.at - earlier.at for earlier, later in pairwise(requests)]
    assert gaps == [timedelta(seconds=seconds) for seconds in (1, 5, 30)]
    assert [request.copy for request in requests] == [1, 2, 3, 4]
    assert Delivery.objects.get().state == Delivery.State.SUCCEEDED


def test_notices_are_received_but_are_not_events(webhooks: Webhooks, owner: Any) -> None:
    webhooks.register(owner, EVENT_TYPE)
    webhooks.receiver.answers = (500, 200)
    event = emit_one(owner)

    types = [request.event.type for request in webhooks.deliver()]

    assert types == [EVENT_TYPE, "webhook.retry", EVENT_TYPE]
    assert len(webhooks.receiver.events()) == len(webhooks.receiver.events(EVENT_TYPE)) == 2
    assert len(webhooks.receiver.events("webhook.retry")) == 1
    assert webhooks.emitted() == [event]


def test_a_notice_is_sent_on_a_slow_machine_too(
    webhooks: Webhooks, owner: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = count(step=0.5)  # between two readings; a claim starts within 7.5 s
    monkeypatch.setattr(webhooks.clock, "monotonic", lambda: float(next(seconds)))
    webhooks.register(owner, EVENT_TYPE)
    webhooks.receiver.answers = (500, 200)
    emit_one(owner)

    types = [request.event.type for request in webhooks.deliver()]

    assert types == [EVENT_TYPE, "webhook.retry", EVENT_TYPE]


def test_a_delivery_without_a_200_is_given_up(webhooks: Webhooks, owner: Any) -> None:
    webhooks.register(owner, EVENT_TYPE)
    webhooks.receiver.answers = (TransportError(error_class=ErrorClass.TIMEOUT, message="No answer in time."),)
    emit_one(owner)

    webhooks.deliver()

    assert Delivery.objects.get(kind="event").state == Delivery.State.GIVEN_UP
    attempts = DeliveryAttempt.objects.filter(delivery__kind="event")
    assert [attempt.result for attempt in attempts] == ["timeout"] * 4


def test_without_retries_only_due_deliveries_are_sent(webhooks: Webhooks, owner: Any, settings: Any) -> None:
    settings.WEBHOOKS_RETRY_POLICIES = [MINUTE]
    webhooks.register(owner, EVENT_TYPE, retry_notices=False)
    webhooks.receiver.answers = (500, 200)
    emit_one(owner)

    assert len(webhooks.deliver(retries=False)) == 1
    assert webhooks.deliver(retries=False) == []

    webhooks.clock.advance(60)
    assert len(webhooks.deliver(retries=False)) == 1


def test_a_handshake_passes_or_fails_as_configured(webhooks: Webhooks, owner: Any) -> None:
    passing = register_webhook(owner=owner, url="https://one.example.com/", event_types=[EVENT_TYPE])
    webhooks.deliver()
    webhooks.receiver.passes_handshakes = False
    failing = register_webhook(owner=owner, url="https://two.example.com/", event_types=[EVENT_TYPE])
    webhooks.deliver()

    statuses = dict(Webhook.objects.values_list("pk", "status"))
    assert statuses == {passing.pk: "active", failing.pk: "failed"}


def test_held_deliveries_do_not_keep_deliver_busy(webhooks: Webhooks, owner: Any) -> None:
    webhook = webhooks.register(owner, EVENT_TYPE)
    emit_one(owner)
    webhook.await_verification()

    assert webhooks.deliver() == []


def test_a_response_may_have_headers_and_a_body(webhooks: Webhooks, owner: Any) -> None:
    webhooks.register(owner, EVENT_TYPE)
    webhooks.receiver.answers = (Response(status=429, headers=(("Retry-After", "120"),), body=b"busy"), 200)
    emit_one(owner)

    webhooks.deliver()

    first = DeliveryAttempt.objects.get(delivery__kind="event", number=1)
    assert (first.retry_after, first.response_body) == ("120", "busy")


def test_a_test_event_is_received_but_does_not_count_as_emitted(webhooks: Webhooks, owner: Any) -> None:
    webhook = webhooks.register(owner, EVENT_TYPE)
    send_test_event(webhook, "file.deleted")

    [request] = webhooks.deliver()

    assert request.event.type == "file.deleted"
    webhooks.assert_not_emitted()


def test_an_invalid_webhook_cannot_be_registered(webhooks: Webhooks, owner: Any) -> None:
    with pytest.raises(ValidationError, match="Unknown event type"):
        webhooks.register(owner, "no.such_type")


@pytest.mark.django_db(transaction=True)
def test_signal_handlers_of_the_host_are_called(webhooks: Webhooks, owner: Any) -> None:
    called: list[object] = []

    def handler(sender: object, **kwargs: object) -> None:
        called.append(sender)

    deliveries_created.connect(handler)
    webhooks.register(owner, EVENT_TYPE)

    try:
        emit_one(owner)
    finally:
        deliveries_created.disconnect(handler)

    assert called == [Delivery]


def test_the_clock_cannot_move_backwards(webhooks: Webhooks) -> None:
    now = webhooks.clock()

    webhooks.clock.advance(-5)

    assert webhooks.clock() == now
    assert ManualClock(now)() == now


def test_the_received_json_equals_the_emitted_json(webhooks: Webhooks, owner: Any) -> None:
    webhooks.register(owner, EVENT_TYPE)
    event = emit(EVENT_TYPE, {"error": "Kein Entwurf für „Übersicht“ 😀"}, owner=owner)

    [request] = webhooks.deliver()

    assert request.event.data == json.loads(event.body)["data"] == event.data


def test_a_misspelt_event_type_is_an_error(webhooks: Webhooks) -> None:
    for call in (webhooks.emitted, webhooks.assert_emitted, webhooks.assert_not_emitted, webhooks.assert_delivered):
        with pytest.raises(UnknownEventTypeError, match=r"Did you mean file\.deleted"):
            call("file.deletd")


def test_an_event_type_is_given_by_name_or_as_itself(webhooks: Webhooks, owner: Any) -> None:
    emit_one(owner)

    webhooks.assert_emitted(registry.get(EVENT_TYPE))
    webhooks.assert_not_emitted(registry.get("file.deleted"))


def test_an_assertion_includes_retries(webhooks: Webhooks, owner: Any) -> None:
    webhook = webhooks.register(owner, EVENT_TYPE, retry_notices=False)
    webhooks.receiver.answers = (500, 200)
    event = emit_one(owner)

    request = webhooks.assert_delivered(EVENT_TYPE, {"error": matching("No .*")}, to=webhook)

    assert (request.event.id, request.copy) == (event.id, 2)


def test_a_delivery_that_was_not_confirmed_fails_the_test_and_lists_the_results(webhooks: Webhooks, owner: Any) -> None:
    webhooks.register(owner, EVENT_TYPE)
    webhooks.receiver.answers = (500,)
    emit_one(owner)

    with pytest.raises(AssertionError, match="0 of 1 expected deliveries") as caught:
        webhooks.assert_delivered(EVENT_TYPE)

    assert f"{EVENT_TYPE} to https://receiver.example.com/webhooks: given_up, http_status" in str(caught.value)


def test_without_a_webhook_nothing_is_delivered(webhooks: Webhooks, owner: Any) -> None:
    emit_one(owner)

    with pytest.raises(AssertionError, match="Register a webhook for the type"):
        webhooks.assert_delivered(EVENT_TYPE)


@pytest.mark.parametrize(
    ("matcher", "equal", "different"),
    [
        pytest.param(instance_of(int, str), [1, "a"], [True, 1.0, None], id="instance"),
        pytest.param(matching(r"inv_\d+"), ["inv_1"], ["inv_1!", 1], id="text"),
        pytest.param(containing({"a": instance_of(int)}), [{"a": 1, "b": 2}], [{"b": 1}, {"a": ""}, 1], id="mapping"),
        pytest.param(satisfying(lambda value: value > 1), [2], [1], id="function"),
    ],
)
def test_a_matcher_equals_values_with_its_property(matcher: Any, equal: list[Any], different: list[Any]) -> None:
    assert all(value == matcher and matcher == value for value in equal)
    assert not any(value == matcher for value in different)


class CaseOfUnittest(WebhooksMixin, TestCase):
    __test__ = False

    def test_of_the_host(self) -> None:
        emit(EVENT_TYPE, {"error": "x"}, owner=None)
        self.webhooks.assert_emitted(EVENT_TYPE)


def test_a_test_case_of_unittest_has_the_kit(db: None) -> None:
    result = CaseOfUnittest("test_of_the_host").run()

    assert result is not None
    assert (result.testsRun, result.errors, result.failures) == (1, [], [])


def test_an_idempotency_key_and_references_can_be_asserted(webhooks: Webhooks, owner: Any) -> None:
    event = emit(EVENT_TYPE, {"error": "a"}, owner=owner, idempotency_key="order-7", references=["ppt_1", "ppt_2"])
    emit(EVENT_TYPE, {"error": "a"}, owner=owner)

    assert webhooks.assert_emitted(EVENT_TYPE, idempotency_key="order-7") == event
    assert webhooks.assert_emitted(EVENT_TYPE, references=["ppt_2"]) == event
    assert webhooks.assert_emitted(EVENT_TYPE, times=2)


@pytest.mark.parametrize(
    ("wanted", "described"),
    [
        pytest.param({"idempotency_key": "order-8"}, "(idempotency key order-8)", id="another key"),
        pytest.param({"references": ["ppt_1", "ppt_3"]}, "(references ppt_1, ppt_3)", id="one reference is missing"),
    ],
)
def test_other_marks_fail_the_test_and_are_listed(
    webhooks: Webhooks, owner: Any, wanted: dict[str, Any], described: str
) -> None:
    emit(EVENT_TYPE, {"error": "a"}, owner=owner, idempotency_key="order-7", references=["ppt_1"])

    with pytest.raises(AssertionError) as failure:
        webhooks.assert_emitted(EVENT_TYPE, **wanted)

    assert described in str(failure.value)
    assert "(idempotency key order-7; references ppt_1)" in str(failure.value)


def test_the_reason_for_not_sending_an_event_can_be_asserted(webhooks: Webhooks, owner: Any) -> None:
    webhook = webhooks.register(owner, EVENT_TYPE, filter={"error": "disk full"})
    event = emit_one(owner, "No outline")

    decision = webhooks.assert_not_sent(event, webhook, reason="filtered")

    assert decision.explanation == 'data.error is "No outline", the filter requires "disk full".'


def test_an_event_that_was_sent_or_had_another_reason_fails_the_test(webhooks: Webhooks, owner: Any) -> None:
    webhook = webhooks.register(owner, EVENT_TYPE)
    unsubscribing = webhooks.register(owner, "file.deleted")
    event = emit_one(owner)

    with pytest.raises(AssertionError, match=r"was sent to wh_.*It was active"):
        webhooks.assert_not_sent(event, webhook)
    with pytest.raises(AssertionError, match=r"not_subscribed.*The expected reason is filtered\."):
        webhooks.assert_not_sent(event, unsubscribing, reason="filtered")


def test_an_event_is_not_sent_to_another_customer(webhooks: Webhooks, owner: Any, django_user_model: Any) -> None:
    webhook = webhooks.register(django_user_model.objects.create_user("bela"), EVENT_TYPE)
    event = emit_one(owner)

    decision = webhooks.assert_not_sent(event, webhook, reason="other_owner")

    assert decision.explanation == "The event belongs to another account."
    with pytest.raises(AssertionError, match=r"other_owner.*The expected reason is filtered\."):
        webhooks.assert_not_sent(event, webhook, reason="filtered")


def test_a_test_event_has_no_decision_for_another_webhook(webhooks: Webhooks, owner: Any) -> None:
    tested, other = webhooks.register(owner, EVENT_TYPE), webhooks.register(owner, EVENT_TYPE)
    send_test_event(tested, EVENT_TYPE)

    with pytest.raises(LookupError, match=f"is addressed to one webhook, which is not {other.pk}"):
        webhooks.decision(Event.objects.get(is_test=True), other)


@pytest.fixture
def ordered(webhooks: Webhooks, owner: Any) -> tuple[Webhook, Event, Event]:
    """A webhook with an order and two events, after the first attempt of the first has failed."""
    webhook = webhooks.register(owner, EVENT_TYPE, order="webhook", retry_notices=False)
    webhooks.receiver.answers = (503, 200)
    first, second = emit_one(owner), emit_one(owner)
    webhooks.deliver(retries=False)
    return webhook, first, second


def test_an_order_can_be_asserted(webhooks: Webhooks, ordered: tuple[Webhook, Event, Event]) -> None:
    webhook, first, second = ordered

    hold = webhooks.assert_held(second, webhook, reason="ordered", behind=first)
    requests = webhooks.assert_ordered(first, second, to=webhook)

    assert hold.reason == "ordered"
    assert [(request.event.id, request.copy) for request in requests] == [
        *((first.pk, 1), (first.pk, 2), (second.pk, 1), (second.pk, 2))
    ]
    assert webhooks.hold(second, webhook).reason == "final"


def test_another_hold_fails_the_test(webhooks: Webhooks, ordered: tuple[Webhook, Event, Event]) -> None:
    webhook, first, second = ordered

    with pytest.raises(AssertionError, match=r"is held by not_due\. The expected reason is ordered"):
        webhooks.assert_held(first, webhook, reason="ordered")
    with pytest.raises(AssertionError, match="is not held behind"):
        webhooks.assert_held(second, webhook, behind=second)
    webhooks.deliver()
    with pytest.raises(AssertionError, match=r"is not held\. There are:"):
        webhooks.assert_held(second, webhook)


def test_another_order_fails_the_test_and_lists_the_requests(
    webhooks: Webhooks, ordered: tuple[Webhook, Event, Event]
) -> None:
    webhook, first, second = ordered

    with pytest.raises(AssertionError, match="in this order") as caught:
        webhooks.assert_ordered(second, first, to=webhook)

    assert f"{first.pk}, attempt 2\n  {second.pk}, attempt 1" in str(caught.value)


def test_an_event_without_a_delivery_has_no_hold(webhooks: Webhooks, owner: Any) -> None:
    event = emit_one(owner)
    webhook = webhooks.register(owner, EVENT_TYPE)

    with pytest.raises(LookupError, match="has no delivery to"):
        webhooks.hold(event, webhook)


@pytest.fixture
def both(webhooks: Webhooks, owner: Any) -> tuple[Webhook, Webhook]:
    """Two webhooks with the same URL."""
    first, second = (webhooks.register(owner, EVENT_TYPE, retry_notices=False) for _ in range(2))
    return first, second


def test_the_answers_are_those_to_each_webhook(webhooks: Webhooks, owner: Any, both: tuple[Webhook, Webhook]) -> None:
    webhooks.receiver.answers = (500, 200)
    emit_one(owner)

    received = webhooks.deliver()

    for webhook in both:
        assert [each.copy for each in received if each.webhook_id == webhook.pk] == [1, 2]
    assert set(Delivery.objects.values_list("attempt_count", "state")) == {(2, "succeeded")}


def test_a_delivery_to_one_of_several_webhooks_is_returned(
    webhooks: Webhooks, owner: Any, both: tuple[Webhook, Webhook]
) -> None:
    emit_one(owner)

    for webhook in both:
        request = webhooks.assert_delivered(EVENT_TYPE, to=webhook)
        assert request.webhook_id == webhook.pk
        assert request.delivery_id == Delivery.objects.get(webhook=webhook).pk


def test_the_order_of_one_webhook_is_not_that_of_another_with_the_same_url(webhooks: Webhooks, owner: Any) -> None:
    ordered = webhooks.register(owner, EVENT_TYPE, order="webhook", retry_notices=False)
    webhooks.register(owner, EVENT_TYPE, retry_notices=False)
    webhooks.receiver.answers = (503, 200)
    first, second = emit_one(owner), emit_one(owner)

    requests = webhooks.assert_ordered(first, second, to=ordered)

    assert {request.webhook_id for request in requests} == {ordered.pk}
    assert len(requests) == 4
