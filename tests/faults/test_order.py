"""Ordered delivery under faults: no request of a group overtakes another."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from webhooks_app.models import QueueEntry

pytestmark = pytest.mark.timeout(400)

KEYS = 6


def emit_under_kills(lab, events, *, workers, kills):
    """Emit while workers are killed and replaced in turn. Return the final counts."""
    host = lab.start_host()
    lab.start_workers(workers)
    host.begin(events, ending="mixed", pause_seconds=0.15, until_committed=True, keys=KEYS)
    for number in range(kills):
        time.sleep(2)
        if number % 3 == 2:
            lab.workers.pop(0).request_stop()
        else:
            lab.kill_worker()
        lab.start_worker()
    lab.take_report(host)
    return lab.settle()


def attempts_by_webhook(lab):
    return Counter(delivery.webhook_id for delivery in lab.evidence().deliveries for _ in delivery.attempts)


@pytest.mark.places("postgresql-redis")
def test_ten_workers_are_killed_and_replaced_with_ordered_webhooks(lab, report):
    in_order = lab.webhook("uneven", order="webhook")
    by_key = lab.webhook("uneven", order="key")
    lab.webhook("uneven")

    counts = emit_under_kills(lab, 40, workers=10, kills=6)

    report(counts)
    assert max(map(len, lab.evidence().groups)) >= 30
    assert min(attempts_by_webhook(lab)[each.pk] for each in (in_order, by_key)) > len(lab.keys)
    assert not QueueEntry.objects.exists()


@pytest.mark.places("postgresql-rabbitmq")
def test_the_database_is_restarted_with_ordered_webhooks(lab, report):
    lab.webhook("uneven", order="webhook")
    lab.webhook("uneven", order="key")
    host = lab.start_host()
    lab.start_workers(3)
    host.begin(30, pause_seconds=0.2, until_committed=True, keys=KEYS)
    for _ in range(2):
        time.sleep(3)
        lab.database.crash()
        lab.kills += 1
    lab.take_report(host)

    report(lab.settle())


@pytest.mark.places("sqlite-embedded")
def test_workers_are_killed_and_replaced_with_ordered_webhooks(lab, report):
    lab.webhook("uneven", order="webhook")
    lab.webhook("uneven", order="key")

    report(emit_under_kills(lab, 20, workers=2, kills=3))
