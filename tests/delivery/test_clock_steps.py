"""Steps of the clock of a worker's machine alone. The times of requests follow the database's clock."""

from __future__ import annotations

import time
from collections import defaultdict

import pytest

from webhooks_app.conf import transport_options
from webhooks_app.delivery.engine import Engine
from webhooks_app.models import DeliveryAttempt, WorkerSession
from webhooks_app.transport.memory import MemoryTransport

from ..support.engines import at_work
from ..support.rows import emit_one, make_webhook
from ..support.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.only_on("postgresql", "mariadb")]

WEBHOOKS = 5
RETRY_AFTER_SECONDS = 1.0


@pytest.fixture
def step(monkeypatch):
    """Move the machine's clock, but not its monotonic one."""
    offset, seconds, nanoseconds = [0.0], time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: seconds() + offset[0])
    monkeypatch.setattr(time, "time_ns", lambda: nanoseconds() + int(offset[0] * 1e9))

    def step(by_seconds):
        offset[0] += by_seconds

    return step


@pytest.mark.parametrize("by_seconds", [600.0, -600.0], ids=["ahead", "back"])
def test_a_step_of_the_clock_causes_no_early_and_no_further_request(alice, step, by_seconds):
    for _ in range(WEBHOOKS):
        make_webhook(alice, retry_notices=False)
    sent = defaultdict(list)

    def fail_once(request):
        times = sent[request.context.claim.delivery_id]
        times.append(time.monotonic())
        return 500 if len(times) == 1 else 200

    with at_work(Engine(transport=MemoryTransport(transport_options(), answer=fail_once), database_thread=True)):
        emit_one(alice)
        wait_until(lambda: DeliveryAttempt.objects.filter(number=1).count() == WEBHOOKS)
        step(by_seconds)
        emit_one(alice)
        wait_until(lambda: DeliveryAttempt.objects.filter(number=1).count() == 2 * WEBHOOKS)
        step(-by_seconds)
        wait_until(lambda: DeliveryAttempt.objects.filter(result="succeeded").count() == 2 * WEBHOOKS)

    assert sorted(map(len, sent.values())) == [2] * 2 * WEBHOOKS
    assert min(second - first for first, second in sent.values()) >= RETRY_AFTER_SECONDS
    assert set(DeliveryAttempt.objects.values_list("number", "result")) == {(1, "http_status"), (2, "succeeded")}
    assert not WorkerSession.objects.exists()
