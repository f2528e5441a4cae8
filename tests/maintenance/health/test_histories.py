"""What receivers do over days, and what the app says about them: real deliveries with a simulated clock.

``histories.txt`` is the table: for each receiver and retry policy, what is said after some time, and what was mailed
and emitted since the line before. Times are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core import mail
from django.test import TestCase
from django.utils import timezone

from webhooks_app.conf import transport_options
from webhooks_app.database.clock import following
from webhooks_app.delivery.engine import Engine
from webhooks_app.maintenance import jobs
from webhooks_app.maintenance.outgoing import wait_for_mails
from webhooks_app.models import Event, QueueEntry, Webhook
from webhooks_app.models.audit import SYSTEM, acting
from webhooks_app.models.standing import Standing, conditions, health_of
from webhooks_app.operations import lifecycle
from webhooks_app.operations.actors import PROJECT
from webhooks_app.operations.registration import update_webhook
from webhooks_app.pages.health import as_text, sentences
from webhooks_app.transport import Request, errors
from webhooks_app.transport.memory import MemoryTransport

from ...delivery.conftest import ImpatientTransport, ManualClock, echo_challenge
from ...support.rows import URL, emit_one, make_webhook

pytestmark = pytest.mark.django_db

MINUTE, HOUR, DAY = 60, 3600, 86_400
STEPS = {"0 s": 0, "15 s": 15, "1 min": MINUTE, "20 min": 20 * MINUTE, "2 h": 2 * HOUR, "1 d": DAY, "3 d": 3 * DAY}
STEPS |= {"6 d": 6 * DAY, "8 d": 8 * DAY}
BETWEEN = [40 * MINUTE, 5 * HOUR, 12 * HOUR, 2 * DAY, 4 * DAY, 5 * DAY, 7 * DAY]
"""Times at which only retries are sent."""
OPERATIONAL = ("webhook.failing", "webhook.recovered", "webhook.disabled")
JOBS = ("fold", "recent", "health", "announcements", "mails")
TABLE = Path(__file__).with_name("histories.txt")
NEW_URL = "http://127.0.0.1:9000/new"


class TimedTransport(ImpatientTransport):
    """A transport that measures requests by the simulated clock."""

    def __init__(self, clock: ManualClock, answer: Any) -> None:
        MemoryTransport.__init__(self, transport_options(), answer=answer, clock=clock.monotonic)
        self.manual_clock = clock


class History:
    """A webhook that gets events at each step, its receiver, and the workers."""

    def __init__(self, webhook: Webhook, clock: ManualClock, answer: Callable[[History], Any]) -> None:
        self.webhook = webhook
        self.clock = clock
        self.results: list[bool] = []
        self.began_at = clock()
        self.answer = answer
        self.transport = TimedTransport(clock, self._answer)

    @property
    def seconds(self) -> float:
        return (self.clock() - self.began_at).total_seconds()

    def _answer(self, request: Request) -> Any:
        if b"webhook.verification" in request.body:
            return 404 if request.url == NEW_URL else echo_challenge(request)
        if "/hook" not in request.url:
            return 200
        self.results.append(False)
        answer = self.answer(self)
        self.results[-1] = answer == 200
        return answer

    def step(self, seconds: float, events: int = 2) -> None:
        """Let time pass until then, emit events, deliver what is due within four seconds, and run the jobs."""
        for moment in (moment for moment in BETWEEN if self.seconds < moment < seconds):
            self._pass_until(moment)
            self._deliver()
            self._run("fold")
        self._pass_until(seconds)
        with following(self.clock), acting(SYSTEM), TestCase.captureOnCommitCallbacks(execute=True):
            for _ in range(events):
                emit_one(self.webhook.owner)
        self._deliver()
        self._run(*JOBS)
        wait_for_mails(30)

    def _pass_until(self, seconds: float) -> None:
        self.clock.now = max(self.clock.now, self.began_at + timedelta(seconds=seconds))

    def _deliver(self) -> None:
        until, sent = self.clock() + timedelta(seconds=4), -1
        while len(self.transport.requests) > sent:
            sent = len(self.transport.requests)
            due = QueueEntry.objects.filter(due_at__lte=until).order_by("due_at").values_list("due_at", flat=True)
            if (first := due.first()) is not None:
                self.clock.now = max(self.clock.now, first)
                with TestCase.captureOnCommitCallbacks(execute=True):
                    Engine(transport=self.transport, clock=self.clock).run_until_idle(await_retries=False)

    def _run(self, *names: str) -> None:
        with following(self.clock), acting(SYSTEM):
            for job in jobs.JOBS:
                if job.name in names:
                    with TestCase.captureOnCommitCallbacks(execute=True):
                        job.run("default", self.clock(), {})

    def judged(self) -> Standing:
        """Return the state, which lists find too, and which is not well after three failed requests."""
        found = health_of(self._read(), self.clock()).standing
        (listed,) = [each for each, is_it in conditions(self.clock()).items() if self._rows().filter(is_it)]
        assert listed is found
        assert found is not Standing.HEALTHY or len(self.results) < 3 or any(self.results[-3:])
        return found

    def said(self) -> str:
        webhook = self._read()
        return " ".join(as_text(each) for each in sentences(webhook, health_of(webhook, self.clock())))

    def _read(self) -> Webhook:
        return self._rows().select_related("health").get()

    def _rows(self) -> Any:
        return Webhook.objects.filter(pk=self.webhook.pk)


def always(answer: Any, *, seconds: float = 0) -> Callable[[History], Any]:
    """Return a receiver that gives this answer after some seconds."""

    def answers(history: History) -> Any:
        history.clock.advance(seconds)
        return answer

    return answers


def until(seconds: float) -> Callable[[History], Any]:
    return lambda history: 500 if history.seconds < seconds else 200


def act(verb: Callable[..., Any], **fields: Any) -> Callable[[History], None]:
    def run(history: History) -> None:
        history.webhook.refresh_from_db()
        with following(history.clock):
            verb(history.webhook, actor=PROJECT, **fields)

    return run


RECEIVERS: dict[str, Callable[[History], Any]] = {
    "works": always(200),
    "is down": always(errors.not_connected("receiver.example.com")),
    "answers 500": always(500),
    "fails every other time": lambda history: 500 if len(history.results) % 2 else 200,
    "is slow": always(200, seconds=6),
    "hangs": always(errors.timed_out(30), seconds=30),
    "has a bad certificate": always(errors.certificate_refused(10)),
    "recovers after a minute": until(MINUTE),
    "recovers after an hour": until(HOUR),
    "recovers after two days": until(2 * DAY),
    "answers 500, paused": always(500),
    "answers 500, disabled": always(500),
    "answers 500, URL changed": always(500),
}
MEANWHILE: dict[str, Callable[[History], None]] = {
    "answers 500, paused": act(lifecycle.pause),
    "answers 500, disabled": act(lifecycle.disable),
    "answers 500, URL changed": act(update_webhook, url=NEW_URL),
}


TIMES = (
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)? UTC"), "…"),
    (re.compile(r"(the next attempt is) (in [\d.]+ \w+|now)"), r"\1 …"),
)
HEADING = re.compile(r"^== (.+)$", re.MULTILINE)


@pytest.fixture
def history(django_user_model: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], History]:
    """Create the history of this receiver under a retry policy."""

    def make(name: str, policy: str) -> History:
        clock = ManualClock()
        monkeypatch.setattr(timezone, "now", clock)
        monkeypatch.setattr("random.random", lambda: 0.0)  # the jitter of retries
        owner = django_user_model.objects.create_user("alice", email="alice@example.com")
        make_webhook(None, *OPERATIONAL, url="http://127.0.0.1:9000/platform")
        webhook = make_webhook(owner, retry_policy=policy, url=URL, retry_notices=False)
        return History(webhook, clock, RECEIVERS[name])

    return make


def told(history: History, name: str) -> Iterator[str]:
    """Yield what is said, mailed and emitted at each step."""
    for label, seconds in STEPS.items():
        mails, events = len(mail.outbox), set(Event.objects.values_list("pk", flat=True))
        if label == "2 h" and name in MEANWHILE:
            MEANWHILE[name](history)
        history.step(seconds, events=12 if name == "is slow" else 2)
        yield f"{label}: {history.judged().label}. {history.said()}".rstrip()
        yield from (f"    mail: {message.subject.replace(history.webhook.pk, '…')}" for message in mail.outbox[mails:])
        emitted = Event.objects.filter(type__in=OPERATIONAL).exclude(pk__in=events).order_by("created_at", "pk")
        yield from (f"    event: {event_type}" for event_type in emitted.values_list("type", flat=True))


def table() -> dict[str, str]:
    """Return the expected texts by their heading."""
    _, *parts = HEADING.split(TABLE.read_text())
    return {heading: text.strip() for heading, text in zip(parts[::2], parts[1::2], strict=True)}


@pytest.mark.parametrize("policy", ["specification", "extended"])
@pytest.mark.parametrize("name", RECEIVERS)
def test_what_is_said_mailed_and_emitted_over_days(
    history: Callable[[str, str], History], name: str, policy: str
) -> None:
    found = "\n".join(told(history(name, policy), name))

    for pattern, text in TIMES:
        found = pattern.sub(text, found)
    assert found == table()[f"{name}, {policy}"]


@pytest.mark.parametrize("policy", ["specification", "extended"])
@pytest.mark.parametrize(("name", "cause"), [("answers 500", "status 500"), ("is down", "connection error")])
def test_a_receiver_is_called_failing_within_15_seconds_of_its_third_failure(
    history: Callable[[str, str], History], policy: str, name: str, cause: str
) -> None:
    seen = history(name, policy)
    third_at = failing_at = 0.0

    while seen.seconds < 40:
        seen.step(seen.seconds + 5, events=1)
        third_at = third_at or (seen.seconds if len(seen.results) >= 3 else 0)
        failing_at = failing_at or (seen.seconds if seen.judged() is Standing.FAILING else 0)

    assert 0 < third_at <= failing_at <= third_at + 15
    assert f"The last {len(seen.results)} requests failed, since" in seen.said()
    assert cause in seen.said()
