"""Retry policies and accepted statuses, at the receiver and in the log."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest

from webhooks_app.models import DeliveryAttempt, QueueEntry, Webhook
from webhooks_app.operations.actors import PROJECT
from webhooks_app.operations.lifecycle import start_verification
from webhooks_app.operations.sending import redeliver, send_test_event
from webhooks_app.retry import BaseRetryPolicy
from webhooks_app.testing import Webhooks
from webhooks_app.transport import Response

from ..api.conftest import client_of
from ..support.rows import EVENT_TYPE, URL, deliveries, emit_one, make_webhook, unverified

pytestmark = pytest.mark.django_db


class Doubling(BaseRetryPolicy):
    """A toy policy: three attempts, and each delay is twice the previous one."""

    name = "doubling"
    max_attempts = 3

    def delay(self, number):
        return timedelta(seconds=10 * 2**number)


class SlowerDoubling(BaseRetryPolicy):
    """The same policy after a deployment."""

    name = "doubling"
    max_attempts = 4

    def delay(self, number):
        return timedelta(seconds=100 * 2**number)


@pytest.fixture
def patient(alice):
    return make_webhook(alice, retry_policy="extended", retry_notices=False)


def seconds_between_attempts():
    moments = list(DeliveryAttempt.objects.order_by("number").values_list("started_at", flat=True))
    return [(after - before).total_seconds() for before, after in pairwise(moments)]


def test_a_custom_policy_can_be_selected(alice, receiver, deliver, settings):
    settings.WEBHOOKS_RETRY_POLICIES = ["specification", f"{__name__}.Doubling"]
    new = {"url": URL, "events": [EVENT_TYPE], "retry_policy": "doubling", "retry_notices": False}
    made = client_of(alice).call("POST", "/v1/webhooks", new).json()
    QueueEntry.objects.all().delete()
    Webhook.objects.update(status="active")
    emit_one(alice)
    transport = receiver(500)

    deliver(transport)

    first, second = seconds_between_attempts()
    assert made["retry_policy"] == "doubling"
    assert (20 <= first < 22, 40 <= second < 42) == (True, True)
    assert deliveries()[0].state == "given_up"


def test_a_delivery_keeps_its_policy_after_a_change(alice):
    with Webhooks() as webhooks:
        webhooks.register(alice, EVENT_TYPE, retry_policy="extended", retry_notices=False)
        webhooks.receiver.answers = (500,)
        emit_one(alice)
        Webhook.objects.update(retry_policy="specification")

        received = webhooks.deliver()

    first, *_, last = (after.at - before.at for before, after in pairwise(received))
    assert len(received) == 10
    assert timedelta(seconds=5) <= first < timedelta(seconds=7)
    assert timedelta(days=1) <= last < timedelta(days=1.2)


def test_all_new_deliveries_have_the_policy_of_the_webhook(patient, alice, receiver, deliver):
    emit_one(alice)
    deliver(receiver(200))
    redeliver(deliveries()[0], actor=PROJECT)
    send_test_event(patient, EVENT_TYPE)

    assert set(QueueEntry.objects.values_list("retry_policy", "max_attempts")) == {("extended", 10)}


def test_a_handshake_has_the_default_policy(patient):
    delivery = start_verification(unverified(patient), actor=PROJECT)

    assert (delivery.retry_policy, delivery.max_attempts) == ("", 4)


def test_the_first_policy_of_the_setting_is_the_default(alice, webhook, settings):
    settings.WEBHOOKS_RETRY_POLICIES = ["extended", "specification"]

    emit_one(alice)

    assert (deliveries()[0].policy.name, deliveries()[0].max_attempts) == ("extended", 10)


def test_a_removed_policy_is_replaced_by_the_default_for_new_deliveries(alice, receiver, deliver, settings):
    settings.WEBHOOKS_RETRY_POLICIES = ["specification", f"{__name__}.Doubling"]
    make_webhook(alice, retry_policy="doubling", retry_notices=False)
    emit_one(alice)
    settings.WEBHOOKS_RETRY_POLICIES = ["specification"]
    emit_one(alice)

    deliver(receiver(500))

    assert sorted(d.attempt_count for d in deliveries()) == [3, 4]


@pytest.mark.parametrize(
    "policies",
    [
        pytest.param(["specification"], id="a policy that is gone"),
        pytest.param(["specification", f"{__name__}.SlowerDoubling"], id="a policy with other delays"),
    ],
)
def test_attempts_and_delays_stay_those_of_the_time_of_queueing(alice, receiver, deliver, settings, policies):
    settings.WEBHOOKS_RETRY_POLICIES = ["specification", f"{__name__}.Doubling"]
    make_webhook(alice, retry_policy="doubling", retry_notices=False)
    emit_one(alice)
    settings.WEBHOOKS_RETRY_POLICIES = policies

    deliver(receiver(500))

    first, second = seconds_between_attempts()
    assert (20 <= first < 22, 40 <= second < 42) == (True, True)
    assert deliveries()[0].policy.name == "doubling"


def test_a_policy_with_other_delays_counts_for_the_next_emit(alice, settings):
    settings.WEBHOOKS_RETRY_POLICIES = ["specification", f"{__name__}.Doubling"]
    make_webhook(alice, retry_policy="doubling")
    emit_one(alice)
    settings.WEBHOOKS_RETRY_POLICIES = ["specification", f"{__name__}.SlowerDoubling"]

    emit_one(alice)

    assert [d.retry_policy for d in deliveries()] == ["doubling:20,40", "doubling:200,400,800"]


@pytest.mark.parametrize(
    ("policy", "seconds"), [pytest.param("extended", 600, id="allowed"), pytest.param("", 1, id="ignored")]
)
def test_retry_after_is_respected_if_the_policy_permits_it(alice, receiver, deliver, policy, seconds):
    make_webhook(alice, retry_policy=policy, retry_notices=False)
    emit_one(alice)

    deliver(receiver(Response(status=503, headers=(("Retry-After", "600"),)), 200))

    (gap,) = seconds_between_attempts()
    assert seconds <= gap < seconds + 2


@pytest.mark.parametrize(
    ("accepted", "status", "state"),
    [
        pytest.param("200", 204, "given_up", id="204 by the specification"),
        pytest.param("2xx", 200, "succeeded", id="200"),
        pytest.param("2xx", 204, "succeeded", id="204"),
        pytest.param("2xx", 299, "succeeded", id="299"),
        pytest.param("2xx", 302, "given_up", id="redirect"),
        pytest.param("2xx", 500, "given_up", id="error"),
    ],
)
def test_accepted_statuses_determine_success(alice, receiver, deliver, accepted, status, state):
    make_webhook(alice, accepted_statuses=accepted)
    emit_one(alice)

    deliver(receiver(status))

    assert deliveries()[0].state == state
    message = DeliveryAttempt.objects.filter(delivery__kind="event").order_by("number").first().message
    assert ("2xx status confirms" in message) is (accepted == "2xx" and state == "given_up")


def test_a_handshake_requires_200_regardless_of_accepted_statuses(alice, receiver, deliver):
    webhook = make_webhook(alice, accepted_statuses="2xx")
    start_verification(unverified(webhook), actor=PROJECT)

    transport = receiver()
    transport.answer = 204

    deliver(transport)

    assert Webhook.objects.get().status == "failed"
