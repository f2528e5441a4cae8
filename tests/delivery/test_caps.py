"""How many deliveries a webhook without a limit of its own may have in flight."""

from __future__ import annotations

import pytest

from webhooks_app.delivery.caps import SLOW_FOR_SECONDS, usual_cap
from webhooks_app.delivery.desk import Desk
from webhooks_app.delivery.sending import finish, request_for
from webhooks_app.retry import RetrySchedule
from webhooks_app.transport import Exchange, Response, failures

from ..making import emit_one

TIMED_OUT = {"error": failures.timed_out(30)}
FAILED = {"response": Response(status=500)}


@pytest.mark.parametrize(
    ("window", "configured", "cap"),
    [
        pytest.param(2000, 50, 50, id="as configured"),
        pytest.param(64, 50, 16, id="a quarter of a small window"),
        pytest.param(3, 50, 1, id="never nothing"),
        pytest.param(2000, 1, 1, id="configured as one"),
    ],
)
def test_a_webhook_fills_at_most_a_quarter_of_a_process(window, configured, cap):
    assert usual_cap(window, configured) == cap


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("outcome", "seconds_later", "claimed"),
    [
        pytest.param(FAILED, 0, 50, id="an answer"),
        pytest.param(TIMED_OUT, 0, 16, id="a timeout"),
        pytest.param(TIMED_OUT, SLOW_FOR_SECONDS, 50, id="a timeout a minute ago"),
    ],
)
def test_a_webhook_gets_a_third_after_a_timeout(alice, webhook, clock, outcome, seconds_later, claimed):
    webhook.retry_notices = False
    webhook.save()
    desk = Desk(using="default", clock=clock, window=1000)
    emit_one(alice)
    (first,) = claimed_by(desk)
    request = request_for(first, now=clock(), timeout_seconds=30)
    desk.put([finish(Exchange(request=request, duration_seconds=0.1, **outcome), RetrySchedule.of_seconds())])
    desk.turn(lambda desk: False)
    clock.advance(seconds_later)

    for _ in range(60):
        emit_one(alice)
    clock.advance(0.5)

    assert len(claimed_by(desk)) == claimed


def claimed_by(desk):
    desk.wake()
    desk.turn(lambda desk: False)
    return list(desk.take())
