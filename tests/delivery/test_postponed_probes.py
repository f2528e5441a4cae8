"""Handshakes and test events beyond the rate of one address are postponed, not refused, and no attempt counts."""

from __future__ import annotations

import dataclasses

import pytest

from webhooks_app.conf import transport_options
from webhooks_app.delivery.engine import Engine
from webhooks_app.models import Delivery, DeliveryAttempt, Webhook
from webhooks_app.models.hold import HoldReason, hold_of
from webhooks_app.transport.probe_turns import ProbeTurns

from ..support.rows import make_webhook
from .conftest import ImpatientTransport, Receiver

pytestmark = pytest.mark.django_db


class OneAddress(ImpatientTransport):
    """A transport for which all names resolve to one address, with a rate of two requests a second."""

    def __init__(self, clock):
        super().__init__(clock, Receiver(200))
        self.turns = ProbeTurns(2.0, clock=clock.monotonic)
        self.answer, self.answer_sent = None, self.answer  # the turn comes first
        self.sent_at = {}

    def start(self, request):
        super().start(request)
        if seconds := self.turns.seconds_to_wait(request, ["192.0.2.1"]):
            self.requests.remove(request)
            self.postpone(request, seconds)
        else:
            self.sent_at[request.probe] = self.manual_clock.monotonic()
            self.complete(request, self.answer_sent(request))

    def postpone(self, request, seconds):
        self.complete(request)
        self._finished[-1] = self._finished[-1]._replace(response=None, postponed_seconds=seconds)


def pending(owner, number):
    return [make_webhook(owner, status="pending") for _ in range(number)]


def test_handshakes_beyond_the_rate_are_sent_later(alice, clock):
    pending(alice, 20)
    transport = OneAddress(clock)

    Engine(transport=transport, clock=clock).run_until_idle()

    assert set(Webhook.objects.values_list("status", flat=True)) == {"active"}
    assert set(DeliveryAttempt.objects.values_list("number", "result")) == {(1, "succeeded")}
    times = sorted(transport.sent_at.values())
    assert len(times) == 20
    assert all(later - earlier >= 0.99 for earlier, later in zip(times[3:], times[5:], strict=False))


def test_an_owner_with_one_webhook_is_verified_before_all_of_another(alice, bob, clock):
    pending(alice, 20)
    (webhook,) = pending(bob, 1)
    transport = OneAddress(clock)

    Engine(transport=transport, clock=clock).run_until_idle()

    order = sorted(transport.sent_at, key=transport.sent_at.get)
    assert order.index(Delivery.objects.get(webhook=webhook).pk) <= 4


def test_a_postponed_delivery_has_a_hold_with_an_end(alice, clock):
    pending(alice, 6)

    Engine(transport=OneAddress(clock), clock=clock).run_until_idle(await_retries=False)

    held = Delivery.objects.filter(state="pending").select_related("queue_entry", "webhook")
    holds = sorted((hold_of(delivery, now=clock()) for delivery in held), key=lambda hold: hold.until)
    assert {hold.reason for hold in holds} == {HoldReason.ADDRESS_BUSY}
    assert [round((hold.until - clock()).total_seconds(), 1) for hold in holds] == [0.5, 1.0, 1.5]
    assert {delivery.entry.attempt for delivery in held} == {0}


def test_the_rate_is_a_setting(settings):
    assert dataclasses.asdict(transport_options())["probes_per_second"] == 5.0
    settings.WEBHOOKS_ADDRESS_PROBE_RATE = ""
    assert transport_options().probes_per_second is None
