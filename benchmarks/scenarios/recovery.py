"""Automatic recovery of many webhooks whose receivers come back one after the other, while workers are killed."""

from __future__ import annotations

import argparse
import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from django.db import connection
from django.db.models import F

from webhooks_app import registry
from webhooks_app.database.clock import following
from webhooks_app.maintenance.health import take_in
from webhooks_app.maintenance.rollups.folding import fold
from webhooks_app.models import Delivery, Episode, QueueEntry, Replay, Tally, Webhook
from webhooks_app.models.episode import DELAYS
from webhooks_app.protocol.ids import milliseconds_of

from .. import backlog, receivers, rows, workers
from ..delays import emit_steadily, emit_timed, percentiles, to_first_byte_ms
from ..progress import Progress
from ..scenario import BaseScenario, Figures, Variant, at_most

OUTAGE = timedelta(hours=1)
SUBSCRIBERS = 20
"""Webhooks of an account. Every other one is also subscribed to the new events."""

PER_SECOND = 20
"""Rate of events to the other webhooks, which have always worked."""
NEW_PER_SECOND = 2
"""Rate of new events to the accounts whose webhooks recover, each with ``SUBSCRIBERS`` / 2 deliveries."""
NEW_TYPE = "ppt.generation.started"

WORKERS = 2
KILLED_AFTER = (1 / 3, 2 / 3)
"""When a worker is killed and replaced, as shares of the time in which the receivers come back."""
STOPPED_SECONDS = 0.2
"""Time between the last step of a worker and its end, in which the other finishes its own requests."""

Pair = tuple[int, str]
"""The number of a webhook, and an event."""


@dataclass(slots=True)
class Course:
    """What happened during a measurement."""

    missed: set[Pair]
    back_at: Sequence[float]
    """When the receiver of each webhook came back, as Unix time."""
    delivered: Counter[Pair] = field(default_factory=Counter)
    """How often each event was received with success."""
    first_at: dict[Pair, float] = field(default_factory=dict)
    new_events: dict[str, float] = field(default_factory=dict)
    """The new events to the recovering webhooks, with the times of their commits."""
    statuses: Counter[int] = field(default_factory=Counter)
    claims_of_killed: int = 0
    errors: list[BaseException] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def note(self, requests: Sequence[receivers.ReturningRequest]) -> None:
        self.statuses.update(request.status for request in requests)
        for request in requests:
            if request.status == 200:
                pair = (request.number, request.event_id)
                self.delivered[pair] += 1
                self.first_at.setdefault(pair, request.at)

    @property
    def left(self) -> int:
        """The number of missed events that are not received yet."""
        return len(self.missed) - sum(pair in self.first_at for pair in self.missed)


class Recovery(BaseScenario):
    name = "recovery"
    summary = "automatic recovery after an hour's outage, beside other webhooks, while two workers are killed"
    runs = 1
    variants = (
        Variant(
            label=f"PostgreSQL, native, {WORKERS} commands",
            broker="none",
            settings={"WEBHOOKS_HEALTH_MAILS": False},
            targets={"lost": at_most(0), "beyond_promise": at_most(0), "by_hand": at_most(0), "p95_ms": at_most(150)},
        ),
    )
    options: ClassVar = {
        "recovering": (1000, f"webhooks that recover, {SUBSCRIBERS} per account"),
        "missed_each": (50, "events that each of them missed"),
        "returning_seconds": (120.0, "the time in which their receivers come back, one after the other"),
        "recovery_limit": (900.0, "seconds after which the run fails"),
    }
    quick: ClassVar = {"recovering": 20, "missed_each": 5, "returning_seconds": 6.0, "recovery_limit": 240.0}

    def measure(self, arguments: argparse.Namespace, variant: Variant, progress: Progress) -> Figures:
        with receivers.returning() as returning, receivers.nginx() as healthy:
            progress.step("making the outage")
            others = rows.make_webhooks([f"{healthy.url}/{index}" for index in range(2)], subscribers=1)
            owners, webhooks = _make_webhooks(arguments.recovering)
            missed = _make_outage(owners, webhooks, arguments.missed_each)
            with _workers() as running:
                _warm_up(others, progress)
                course = _bring_back(webhooks, missed, returning, arguments.returning_seconds)
                commits = _watch(course, others, owners, returning, running, arguments, progress)
                ended = _until_ended(progress)
            course.note(returning.new_requests())
            delays = to_first_byte_ms(healthy, commits)
        figures = _figures(course, delays) | {"ended_after_s": ended}
        rows.clear()
        return figures


def _make_webhooks(number: int) -> tuple[list[Any], list[Webhook]]:
    """Create the webhooks that recover. Their URLs are unused until ``_bring_back``."""
    owners = rows.make_webhooks(["http://127.0.0.1/"] * number, subscribers=SUBSCRIBERS)
    Webhook.objects.filter(owner__in=owners).update(created_at=F("created_at") - 2 * OUTAGE)
    webhooks = list(Webhook.objects.filter(owner__in=owners).order_by("pk"))
    for index, webhook in enumerate(webhooks):
        webhook.recovery = "automatic"
        if index % 2:
            webhook.event_types = [*webhook.event_types, NEW_TYPE]
    Webhook.objects.bulk_update(webhooks, ["recovery", "event_types"])
    return owners, webhooks


def _make_outage(owners: Sequence[Any], webhooks: Sequence[Webhook], each: int) -> set[Pair]:
    """Insert the rows of an hour in which every request was refused. The rows of single attempts are left out."""
    began_at = datetime.now(UTC) - OUTAGE
    for number in range(each):
        _emit_at(began_at + number * OUTAGE / each, owners)
    lost = Delivery.objects.filter(webhook__in=[webhook.pk for webhook in webhooks])
    QueueEntry.objects.filter(webhook__in=[webhook.pk for webhook in webhooks]).delete()
    lost.update(
        state=Delivery.State.GIVEN_UP,
        attempt_count=F("max_attempts"),
        last_result="http_status",
        finished_at=F("created_at") + timedelta(seconds=36),
    )
    numbers = {webhook.pk: index for index, webhook in enumerate(webhooks)}
    events: dict[int, list[tuple[str, str]]] = {}
    for webhook_id, event_id in lost.values_list("webhook", "event"):
        events.setdefault(milliseconds_of(event_id), []).append((webhook_id, event_id))
    for emitted_ms, pairs in sorted(events.items()):
        counts = {webhook_id.removeprefix("wh_"): _counters(emitted_ms) for webhook_id, _ in pairs}
        recorded_at = datetime.fromtimestamp(emitted_ms / 1000, UTC) + timedelta(seconds=36)
        Tally.objects.create(recorded_at=recorded_at, counts=json.dumps({"webhooks": counts, "given_up": []}))
    while fold("default", also=lambda folded: take_in("default", folded)).has_more:
        pass
    Episode.objects.update(next_step_at=datetime.now(UTC) + OUTAGE)
    backlog.analyze()
    return {(numbers[webhook_id], event_id) for pairs in events.values() for webhook_id, event_id in pairs}


def _emit_at(moment: datetime, owners: Sequence[Any]) -> None:
    with following(lambda: moment):
        for owner in owners:
            rows.emit_one(owner)


def _counters(emitted_ms: int) -> dict[str, int]:
    """Return what a worker counts when a delivery is given up after four attempts."""
    return {
        "failed_http_status": 4,
        "code_503": 4,
        "refused_503": 4,
        "given_up": 1,
        "given_up_since_success": 1,
        "missed_from_ms": emitted_ms,
    }


def _warm_up(others: Sequence[Any], progress: Progress) -> None:
    progress.step("warming up")
    for owner in others:
        rows.emit_one(owner)
    rows.wait_until_received(Webhook.objects.filter(owner__in=others), progress)


def _bring_back(
    webhooks: Sequence[Webhook], missed: set[Pair], returning: receivers.ReturningReceiver, seconds: float
) -> Course:
    """Let the receivers come back one after the other.

    The recoveries have made four attempts within the outage. The next one follows a second after the return if the
    webhook gets no new events, and otherwise too late to matter.
    """
    now = time.time()
    back_at = [now + seconds * index / len(webhooks) for index in range(len(webhooks))]
    for index, webhook in enumerate(webhooks):
        webhook.url = returning.url(index, back_at[index])
    Webhook.objects.bulk_update(webhooks, ["url"])
    episodes = list(Episode.objects.filter(webhook__in=[webhook.pk for webhook in webhooks]))
    numbers = {webhook.pk: index for index, webhook in enumerate(webhooks)}
    for episode in episodes:
        index = numbers[episode.webhook_id]
        wait = 1 if index % 2 == 0 else DELAYS[-1].total_seconds()
        due_at = datetime.fromtimestamp(back_at[index] + wait, UTC)
        episode.attempts, episode.failed_at, episode.next_step_at = len(DELAYS) - 1, due_at - DELAYS[-1], due_at
    Episode.objects.bulk_update(episodes, ["attempts", "failed_at", "next_step_at"])
    return Course(missed=missed, back_at=back_at)


class _Workers:
    """Workers that can be killed. Each is replaced at once, as by an init system."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.running = [stack.enter_context(workers.worker_without_broker()) for _ in range(WORKERS)]

    def kill_one(self) -> int:
        """Kill the oldest worker. Return the number of deliveries that it had claimed."""
        worker, stopped_at = self.running.pop(0), time.time()
        os.killpg(worker.process.pid, signal.SIGSTOP)
        time.sleep(STOPPED_SECONDS)
        claimed = QueueEntry.objects.claimed().filter(claimed_at__lte=datetime.fromtimestamp(stopped_at, UTC))
        number = claimed.order_by().count()
        with suppress(ProcessLookupError):
            os.killpg(worker.process.pid, signal.SIGKILL)
        self.running.append(self._stack.enter_context(workers.worker_without_broker()))
        return number


@contextmanager
def _workers() -> Generator[_Workers]:
    with ExitStack() as stack:
        yield _Workers(stack)


def _watch(
    course: Course,
    others: Sequence[Any],
    owners: Sequence[Any],
    returning: receivers.ReturningReceiver,
    running: _Workers,
    arguments: argparse.Namespace,
    progress: Progress,
) -> dict[str, float]:
    """Emit events to the other webhooks until everything missed is received. Return the times of their commits."""
    threads = [
        threading.Thread(target=_guarded, args=(course, _emit_new, owners)),
        threading.Thread(target=_guarded, args=(course, _kill, running, arguments.returning_seconds)),
    ]
    for thread in threads:
        thread.start()
    progress.step("recovering", len(course.missed))
    ends_at = time.monotonic() + arguments.recovery_limit
    commits: dict[str, float] = {}
    try:
        while course.left or time.time() < course.back_at[-1] or threads[1].is_alive():
            if course.errors:
                raise course.errors[0]
            if time.monotonic() > ends_at:
                states = Counter(Replay.objects.values_list("state", flat=True))
                raise RuntimeError(
                    f"{course.left} of {len(course.missed)} events are still missed, after requests with the results "
                    f"{dict(course.statuses)} and replays in the states {dict(states)}."
                )
            commits |= emit_steadily(others, count=PER_SECOND, per_second=PER_SECOND, progress=Progress("beside"))
            course.note(returning.new_requests())
            progress.done(len(course.missed) - course.left)
    finally:
        course.over.set()
        for thread in threads:
            thread.join()
    return commits


def _guarded(course: Course, step: Any, *arguments: Any) -> None:
    """Run a step in a thread; keep its error for the measuring one."""
    try:
        step(course, *arguments)
    except BaseException as error:  # noqa: BLE001 - raised by the measuring thread
        course.errors.append(error)
    finally:
        connection.close()


def _emit_new(course: Course, owners: Sequence[Any]) -> None:
    number = 0
    while not course.over.wait(1 / NEW_PER_SECOND):
        event_id, at = emit_timed(owners[number % len(owners)], NEW_TYPE, registry.get(NEW_TYPE).example)
        course.new_events[event_id] = at
        number += 1


def _kill(course: Course, running: _Workers, seconds: float) -> None:
    began_at = time.monotonic()
    for share in KILLED_AFTER:
        course.over.wait(max(0.0, began_at + share * seconds - time.monotonic()))
        course.claims_of_killed += running.kill_one()


def _until_ended(progress: Progress) -> float:
    """Wait until no recovery is left. Return the seconds."""
    began_at = time.monotonic()
    progress.step("ending")
    while Episode.objects.exists() or QueueEntry.objects.exists():
        if time.monotonic() > began_at + 300:
            raise RuntimeError(f"{Episode.objects.count()} recoveries have not ended.")
        time.sleep(0.5)
    return time.monotonic() - began_at


def _figures(course: Course, delays: Sequence[float]) -> Figures:
    repeated = sum(number - 1 for number in course.delivered.values())
    succeeded = Delivery.objects.filter(state=Delivery.State.SUCCEEDED, kind="event").order_by()
    events = succeeded.values_list("webhook", "event").distinct().count()
    again = succeeded.count() - events
    replays = Replay.objects.all()
    new = [
        1000 * (at - course.new_events[event_id])
        for (number, event_id), at in course.first_at.items()
        if course.new_events.get(event_id, 0) > course.back_at[number] + 1
    ]
    recovered_at = max(course.first_at[pair] for pair in course.missed if pair in course.first_at)
    return {
        "missed": float(len(course.missed)),
        "lost": float(course.left),
        "recorded_twice": float(again),
        "repeated": float(repeated),
        "claims_of_killed": float(course.claims_of_killed),
        "beyond_promise": float(max(0, repeated - course.claims_of_killed) + again),
        "by_hand": float(replays.filter(recovers_since=None).count()),
        "attempts": float(Delivery.objects.filter(purpose=Delivery.Purpose.RECOVERY_ATTEMPT).count()),
        "replays": float(replays.count()),
        "recovered_after_s": recovered_at - course.back_at[-1],
        **percentiles("new_", new or [0.0, 0.0]),
        **percentiles("", delays),
        "max_ms": max(delays),
    }
