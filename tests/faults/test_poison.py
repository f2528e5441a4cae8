"""A delivery that kills its worker."""

from __future__ import annotations

import pytest

from tests.support.retries import POISON
from webhooks_app.models import Delivery, DeliveryAttempt

pytestmark = [pytest.mark.timeout(300), pytest.mark.places("postgresql-redis")]

SETTINGS = {
    "WEBHOOKS_TRANSPORT": "tests.faults.poison.PoisonedTransport",
    "WEBHOOKS_TIMEOUT_SECONDS": 2,
    "WEBHOOKS_LEASE_SECONDS": 7,
    "WEBHOOKS_RETRY_POLICIES": [POISON],
}


@pytest.fixture
def lab(make_lab):
    with make_lab(**SETTINGS) as lab:
        yield lab


OTHERS = 60


def test_a_poisonous_delivery_is_given_up_and_the_others_arrive(lab, report):
    """A kill also affects the deliveries claimed with it. They may be late or duplicated, but not each time."""
    poisoned = lab.webhook("ok", tail="/poison", retry_notices=False)
    for _ in range(3):
        lab.webhook("ok")
    host = lab.start_host()
    lab.emit(host, 20)
    Delivery.objects.filter(webhook=poisoned).exclude(pk=Delivery.objects.filter(webhook=poisoned).last().pk).delete()
    lab.start_beat()
    lab.start_worker()
    lab.kills = 4

    lab.settle()
    attempts = DeliveryAttempt.objects.filter(delivery__webhook=poisoned, delivery__kind="event")
    assert list(attempts.values_list("result", flat=True)) == ["worker_lost"] * 4
    assert lab.requests(poisoned) == []
    lost_with_it = DeliveryAttempt.objects.filter(result="worker_lost", delivery__kind="event")
    assert lost_with_it.exclude(delivery__webhook=poisoned).count() < 1.5 * OTHERS
    lab.webhooks.remove(poisoned)
    report(lab.count())
    assert lab.results() == {"given_up": 1, "succeeded": OTHERS}
