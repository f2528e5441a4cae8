"""Receivers that hang or disappear with thousands of deliveries pending."""

from __future__ import annotations

import pytest

from webhooks_app.models import Delivery, DeliveryAttempt, Event
from webhooks_app.operations import lifecycle
from webhooks_app.operations.actors import PROJECT

from ..support.waiting import wait_until

pytestmark = pytest.mark.timeout(300)

PENDING = 2000
LATENCY_SECONDS = 3
"""Without isolation, a healthy webhook would wait minutes for the timeouts of others."""


def p95_seconds(lab, host, webhook):
    """Return the 95th percentile of the delivery time to a webhook's receiver."""
    emitted = lab.emit(host, 60, pause_seconds=0.03)["committed"]
    wait_until(lambda: set(emitted) <= {request["event_id"] for request in lab.requests(webhook)}, lab.explain)
    created = dict(Event.objects.filter(pk__in=emitted).values_list("pk", "created_at"))
    taken = [
        request["at"] - created[request["event_id"]].timestamp()
        for request in lab.requests(webhook)
        if request["event_id"] in created
    ]
    return sorted(taken)[int(len(taken) * 0.95)]


@pytest.mark.places("postgresql-redis")
def test_one_receiver_hangs_and_another_is_healthy(lab, report):
    healthy, hanging = lab.webhook("ok"), lab.webhook("hangs", "file.deleted")
    lab.webhooks.remove(hanging)
    host = lab.start_host()
    lab.start_workers(2)
    alone = p95_seconds(lab, host, healthy)
    lab.queue(hanging, PENDING)
    lab.wait_for_requests(16, hanging)

    beside = p95_seconds(lab, host, healthy)

    assert Delivery.objects.pending().filter(webhook=hanging).count() > PENDING / 2
    assert lab.most_at_once(hanging) <= 50
    lifecycle.disable(hanging, actor=PROJECT)
    report(lab.settle(), name=f"one receiver hangs: p95 of another {beside * 1000:.0f} ms, alone {alone * 1000:.0f} ms")
    assert beside < LATENCY_SECONDS


@pytest.mark.places("postgresql-redis")
def test_a_receiver_returns_with_thousands_of_overdue_deliveries(lab, report):
    webhook = lab.webhook("slow-0.02", retry_notices=False)
    lab.stop_receiver()
    lab.start_workers(2)
    lab.queue(webhook, PENDING)
    wait_until(lambda: DeliveryAttempt.objects.count() >= PENDING, lab.explain, timeout_seconds=120)

    lab.start_receiver()

    report(lab.settle())
    assert 8 < lab.most_at_once(webhook) <= 50
    assert len(lab.requests(webhook)) == PENDING
