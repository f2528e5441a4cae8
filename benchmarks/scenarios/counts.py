"""The costs of a delivery in reproducible counts: bytes, buffers, entries, statements and calls."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from functools import partial
from types import FrameType
from typing import Any

from django.db import DEFAULT_DB_ALIAS

from tests.support.queues import LookingQueue
from webhooks_app.conf import settings
from webhooks_app.delivery.engine import Engine
from webhooks_app.delivery.schedule import Schedule
from webhooks_app.delivery.slots import Slots
from webhooks_app.models import Delivery, DeliveryAttempt, Webhook
from webhooks_app.signals import deliveries_created

from .. import backlog, counters, recorded, rows
from ..burst import SUBSCRIBERS, WEBHOOKS
from ..progress import Progress
from ..scenario import BaseScenario, Figures, Variant, at_least, at_most
from ..stepped import SteadyTransport, SteppedClock, SteppedTransport

EVENTS = 100
"""Events of a round, each in its own transaction. Their deliveries are sent in two full batches."""
DELIVERIES = EVENTS * SUBSCRIBERS
WARM_UP_ROUNDS = 1
ROUNDS = 2

LOADS = (20, 200, 500)
"""Events per second, each with 10 deliveries, while the engine runs."""
LIVE_EVENTS = 50

Counting = Callable[[], AbstractContextManager[None]]


class Counts(BaseScenario):
    name = "counts"
    summary = "the costs of one delivery for PostgreSQL and Python, in counts that are the same on every machine"
    variants = (
        Variant(
            label="PostgreSQL",
            broker="folder",
            targets={
                "total_wal_bytes": at_most(1600),
                "total_buffers": at_most(35),
                "total_index_entries": at_most(9),
                "claim_hot_share": at_least(0.95),
                "emit_cpu_s_per_1000": at_most(0.035),
                "deliver_cpu_s_per_1000": at_most(0.025),
            },
        ),
    )

    def measure(self, arguments: argparse.Namespace, variant: Variant, progress: Progress) -> Figures:
        owners = rows.make_webhooks(
            [f"http://127.0.0.1:9/{index}" for index in range(WEBHOOKS)], subscribers=SUBSCRIBERS
        )
        counters.quieten()
        with no_wake_ups():
            figures = _measured(owners, progress)
        rows.clear()
        return figures

    def keep(self, results: Mapping[str, Figures]) -> None:
        if figures := results.get(self.variants[0].label):
            recorded.keep(figures)


def _measured(owners: Sequence[Any], progress: Progress) -> Figures:
    progress.step("warming up")
    for events in (*[EVENTS] * WARM_UP_ROUNDS, 1):
        _emit(owners, events)
        deliver()
    backlog.analyze()
    emitted, delivered, claimed = Counter[str](), Counter[str](), Counter[str]()
    for number in range(ROUNDS):
        progress.step("emitting and delivering", ROUNDS)
        with counters.counting(emitted):
            _emit(owners)
        deliver(partial(counters.counting, delivered))
        progress.done(number)
    calls = calls_of(owners)
    live = {name: value for load in LOADS for name, value in _live(owners, load).items()}
    _emit(owners)
    _claim(partial(counters.counting, claimed))
    deliveries = ROUNDS * DELIVERIES
    return {
        **live,
        **_figures("total_", emitted + delivered, deliveries),
        **_figures("emit_", emitted, deliveries),
        **_figures("deliver_", delivered, deliveries),
        **_figures("claim_", claimed, DELIVERIES),
        **calls,
    }


def _emit(owners: Sequence[Any], events: int = EVENTS) -> None:
    for index in range(events):
        rows.emit_one(owners[index % len(owners)])


def deliver(counting: Counting = nullcontext) -> None:
    """Send all deliveries. Raise RuntimeError unless each has one attempt and is final."""
    clock = SteppedClock()
    engine = Engine(transport=SteppedTransport(clock), clock=clock)
    with counting():
        engine.run_until_idle(await_retries=False)
    _raise_if_pending()


def _raise_if_pending() -> None:
    deliveries, attempts = Delivery.objects.count(), DeliveryAttempt.objects.count()
    if (pending := Delivery.objects.pending().count()) or deliveries != attempts:
        raise RuntimeError(f"After {attempts} attempts, {pending} of {deliveries} deliveries are pending.")


def _live(owners: Sequence[Any], per_second: int) -> Figures:
    """Return the costs of a delivery and its share of the event, while events arrive steadily by a simulated clock."""
    counts, calls = Counter[str](), Counter[str]()
    _deliver_live(owners, per_second, partial(counters.counting, counts))
    _deliver_live(owners, per_second, partial(counting_calls, calls))
    deliveries = LIVE_EVENTS * SUBSCRIBERS
    prefix = f"live_{per_second}_"
    return _figures(prefix, counts, deliveries) | {f"{prefix}calls": calls["calls"] / deliveries}


def _deliver_live(owners: Sequence[Any], per_second: int, counting: Counting) -> None:
    clock = SteppedClock()
    webhooks = [list(Webhook.objects.filter(owner=owner).values_list("pk", flat=True)) for owner in owners]

    def emit(number: int) -> None:
        rows.emit_one(owners[number % len(owners)])
        worker.tell(partial(Schedule.named, webhook_ids=webhooks[number % len(owners)]))

    transport = SteadyTransport(clock, emit=emit, events=LIVE_EVENTS, per_second=per_second)
    engine = Engine(transport=transport, clock=clock)
    transport.end = engine.stop
    worker = engine._worker  # noqa: SLF001 - in place of the database's notifications
    worker.tell(lambda schedule, now: schedule._replace(is_listening=True))
    with counting():
        engine.run()
    _raise_if_pending()


def _claim(counting: Counting) -> None:
    """Claim all deliveries in full batches, without sending them."""
    clock = SteppedClock()
    lease = timedelta(seconds=settings.LEASE_SECONDS)
    queue = LookingQueue(using=DEFAULT_DB_ALIAS, clock=clock, lease=lease, slots=Slots(window=1_000_000, cap=EVENTS))
    size = settings.BATCH_SIZE
    with counting():
        claimed = sum(len(queue.claim(size)) for _ in range(DELIVERIES // size))
    if claimed != DELIVERIES:
        raise RuntimeError(f"{claimed} of {DELIVERIES} deliveries were claimed.")


def _figures(prefix: str, counts: Counter[str], deliveries: int) -> Figures:
    """Return counts for one delivery; CPU time and commits for 1,000 deliveries."""
    per_delivery = ("wal_bytes", "buffers", "index_entries", "statements", "round_trips")
    figures = {f"{prefix}{name}": counts[name] / deliveries for name in per_delivery if name in counts}
    if "commits" in counts:
        figures[f"{prefix}commits_per_1000"] = 1000 * counts["commits"] / deliveries
    figures[f"{prefix}cpu_s_per_1000"] = counts["cpu_ns"] / 1e6 / deliveries
    if counts["updates"]:
        figures[f"{prefix}hot_share"] = counts["hot_updates"] / counts["updates"]
    return figures


def calls_of(owners: Sequence[Any]) -> Figures:
    """Return the calls of functions in Python and C for one delivery."""
    emitting, full, alone = Counter[str](), Counter[str](), Counter[str]()
    with counting_calls(emitting):
        _emit(owners)
    deliver(partial(counting_calls, full))
    _emit(owners, 1)
    deliver(partial(counting_calls, alone))
    return {
        "emit_calls": emitting["calls"] / DELIVERIES,
        "deliver_calls": full["calls"] / DELIVERIES,
        "deliver_one_event_calls": alone["calls"] / SUBSCRIBERS,
    }


@contextmanager
def counting_calls(counts: Counter[str]) -> Generator[None]:
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(None)
        counts["calls"] += calls


@contextmanager
def no_wake_ups() -> Generator[None]:
    """Send no wake-ups, whose number depends on time."""
    muted, deliveries_created.receivers = deliveries_created.receivers, []
    try:
        yield
    finally:
        deliveries_created.receivers = muted
