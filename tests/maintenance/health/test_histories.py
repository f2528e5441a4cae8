"""What receivers do over time, and what the app says about them: real deliveries with a simulated clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from webhooks_app.delivery.engine import Engine
from webhooks_app.maintenance.jobs import fold_tallies
from webhooks_app.models import Delivery, DeliveryAttempt, QueueEntry, Webhook
from webhooks_app.models.standing import Standing, conditions, health_of
from webhooks_app.pages.display import as_text
from webhooks_app.pages.health import sentences
from webhooks_app.transport import errors

from ...delivery.conftest import ImpatientTransport, ManualClock
from ...support.rows import EVENT_TYPE, emit_one, make_webhook

pytestmark = pytest.mark.django_db

STEP_SECONDS = 5
FAILING, PARTLY, RETRYING, WELL = Standing.FAILING, Standing.PARTLY_FAILING, Standing.RETRYING, Standing.HEALTHY

REFUSED = errors.not_connected("receiver.example.com")

Answer = Callable[[int, float], Any]
"""Returns the answer to the request with an event of this number (from 1), so many seconds after the first event."""

ALWAYS: dict[str, Answer] = {
    "answers 200": lambda number, seconds: 200,
    "answers 500": lambda number, seconds: 500,
    "refuses": lambda number, seconds: REFUSED,
    "fails every other time": lambda number, seconds: 500 if number % 2 else 200,
    "recovers after a minute": lambda number, seconds: 500 if seconds < 60 else 200,
    "fails after a minute": lambda number, seconds: 200 if seconds < 60 else 503,
}


class History:
    """A receiver that gets an event every five seconds."""

    def __init__(self, webhook: Webhook, answer: Answer) -> None:
        self.webhook = webhook
        self.clock = ManualClock()
        self.began_at = self.clock()
        self.transport = ImpatientTransport(self.clock, lambda _: answer(self.events_sent, self.seconds))

    @property
    def events_sent(self) -> int:
        """The number of requests with an event. A notice of a retry is answered as the event before it."""
        return len(self.transport.sent(EVENT_TYPE))

    @property
    def results(self) -> list[str]:
        """The result of each request with an event, in order."""
        attempts = DeliveryAttempt.objects.filter(delivery__kind="event")
        return list(attempts.order_by("started_at").values_list("result", flat=True))

    @property
    def seconds(self) -> float:
        return (self.clock() - self.began_at).total_seconds()

    def run(self, seconds: float) -> Iterator[Standing]:
        """Yield the standing after each step."""
        while self.seconds < seconds:
            emit_one(self.webhook.owner)
            QueueEntry.objects.filter(attempt=0).update(due_at=self.clock())
            Engine(transport=self.transport, clock=self.clock).run_until_idle(await_retries=False)
            fold_tallies("default", self.clock(), {})
            yield health_of(self.read(), self.clock()).standing
            self.clock.advance(STEP_SECONDS)

    def read(self) -> Webhook:
        return Webhook.objects.select_related("health").get(pk=self.webhook.pk)

    def said(self) -> str:
        return " ".join(as_text(each) for each in sentences(self.read(), health_of(self.read(), self.clock())))


@pytest.fixture
def history(django_user_model: Any) -> Callable[..., History]:
    def make(name: str, policy: str) -> History:
        owner = django_user_model.objects.create_user("alice")
        return History(make_webhook(owner, retry_policy=policy), ALWAYS[name])

    return make


@pytest.mark.parametrize("policy", ["specification", "extended"])
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("answers 200", {WELL}),
        ("answers 500", {RETRYING, FAILING}),
        ("refuses", {RETRYING, FAILING}),
        ("fails every other time", {RETRYING, PARTLY}),
        ("recovers after a minute", {RETRYING, FAILING, PARTLY}),
        ("fails after a minute", {WELL, RETRYING, PARTLY, FAILING}),
    ],
)
def test_a_receiver_that_refuses_is_never_called_healthy(
    history: Callable[..., History], policy: str, name: str, expected: set[Standing]
) -> None:
    course = history(name, policy)
    seen = set()

    for standing in course.run(100):
        seen.add(standing)
        (listed,) = [each for each, is_it in conditions(course.clock()).items() if Webhook.objects.filter(is_it)]
        assert listed is standing
        if len(course.results) >= 3 and "succeeded" not in course.results[-3:]:
            assert standing in (FAILING, RETRYING, PARTLY)

    assert seen == expected


@pytest.mark.parametrize("policy", ["specification", "extended"])
@pytest.mark.parametrize(("name", "cause"), [("answers 500", "status 500"), ("refuses", "connection error")])
def test_a_receiver_is_called_failing_within_15_seconds_of_its_third_failure(
    history: Callable[..., History], policy: str, name: str, cause: str
) -> None:
    course = history(name, policy)
    third_at = failing_at = 0.0

    for standing in course.run(40):
        third_at = third_at or (course.seconds if len(course.results) >= 3 else 0)
        failing_at = failing_at or (course.seconds if standing is FAILING else 0)

    assert 0 < third_at <= failing_at <= third_at + 15
    assert f"The last {len(course.results)} requests failed, since" in course.said()
    assert cause in course.said()
    assert (
        f"{Delivery.objects.filter(state='pending', kind='event').count()} events wait; the next attempt is"
        in course.said()
    )
    assert "the first of them is given up on" in course.said()
