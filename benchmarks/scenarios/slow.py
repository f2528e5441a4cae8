"""Requests to slow receivers: how much of a worker's window they use, and what they cost."""

from __future__ import annotations

import argparse
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from django.db import transaction

from webhooks_app.conf import settings

from .. import receivers, rows, workers
from ..progress import Progress
from ..receivers import LoggedRequest
from ..scenario import BaseScenario, Figures, Variant, at_least, at_most

ANSWER_SECONDS = 1.0
SAMPLE_SECONDS = 0.2

SMALL_WINDOW = 20


@dataclass(frozen=True, slots=True)
class Crowd:
    """Owners whose receivers are all slow. Each webhook has its own host."""

    owners: int
    webhooks: int
    """Of each owner."""
    window: int | None = None
    """None for the default."""

    def __str__(self) -> str:
        owners = "1 owner" if self.owners == 1 else f"{self.owners} owners"
        of_each = "1 webhook" if self.webhooks == 1 else f"{self.webhooks} webhooks"
        return f"{owners}, {of_each} each, {f'window {self.window}' if self.window else 'default window'}"


# With the default window, so many webhooks that their limits of requests in flight are not reached.
CROWDS = {
    f"PostgreSQL, native, 1 process: {crowd}": crowd
    for crowd in (Crowd(1, 400), Crowd(40, 10), Crowd(1, 10, SMALL_WINDOW), Crowd(40, 1, SMALL_WINDOW))
}


def _variant(label: str, crowd: Crowd) -> Variant:
    if crowd.window:
        percent = 40 if crowd.owners == 1 else 90
        return Variant(
            label=label,
            settings={"WEBHOOKS_MAX_IN_FLIGHT": crowd.window},
            targets={"percent_in_use": at_least(percent)},
        )
    per_second = 2400 if crowd.owners == 1 else 3000
    return Variant(
        label=label,
        targets={
            "deliveries_per_s": at_least(per_second),
            "cpu_s_per_1000": at_most(0.2),
            "kb_per_in_flight": at_most(25),
        },
    )


class Slow(BaseScenario):
    name = "slow"
    summary = f"receivers that take {ANSWER_SECONDS:g} s for each request: the use of the window, speed, CPU and memory"
    variants = tuple(_variant(label, crowd) for label, crowd in CROWDS.items())
    options: ClassVar = {"slow_events": (200, "events to each webhook; a tenth of them with a small window")}
    quick: ClassVar = {"slow_events": 20}

    def measure(self, arguments: argparse.Namespace, variant: Variant, progress: Progress) -> Figures:
        crowd = CROWDS[variant.label]
        events = max(2, arguments.slow_events // 10) if crowd.window else arguments.slow_events
        addresses = receivers.hosts(crowd.owners * crowd.webhooks)
        expected = events * len(addresses)
        slow = receivers.slow(ANSWER_SECONDS, addresses=addresses)
        with slow as receiver, workers.celery_worker(variant.workers) as worker:
            urls = [f"{receiver.url_at(address)}/{index}" for index, address in enumerate(addresses)]
            owners = rows.make_webhooks(urls, subscribers=crowd.webhooks)
            warmed_up = rows.warm_up(owners, [worker], receiver, progress, processes=variant.workers)
            progress.step("emitting", events)
            with transaction.atomic():
                for index in range(events):
                    for owner in owners:
                        rows.emit_one(owner)
                    progress.done(index)
                cpu_before = worker.cpu_seconds()
            progress.step("delivering", expected)
            with MemoryWatch(worker) as memory:
                rows.wait_until_delivered(receiver, warmed_up + expected, progress)
            cpu = worker.cpu_seconds() - cpu_before
            rows.check(receiver, warmed_up + expected)
            requests = sorted(receiver.requests(), key=lambda request: request.at)[warmed_up:]
        rows.clear()
        seconds = max(request.answered_at for request in requests) - requests[0].at
        most = _most_at_once(requests)
        return {
            "deliveries_per_s": expected / seconds,
            "percent_in_use": 100 * _usual_at_once(requests) / (crowd.window or settings.MAX_IN_FLIGHT),
            "most_in_flight": float(most),
            "cpu_s_per_1000": 1000 * cpu / expected,
            "kb_per_in_flight": memory.growth_bytes / 1024 / most,
        }


class MemoryWatch:
    """The maximum growth of a worker's memory during the block."""

    def __init__(self, worker: workers.Worker) -> None:
        self._worker = worker
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._before = self._most = worker.resident_bytes()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def growth_bytes(self) -> int:
        return self._most - self._before

    def _watch(self) -> None:
        while not self._over.wait(SAMPLE_SECONDS):
            self._most = max(self._most, self._worker.resident_bytes())


def _most_at_once(requests: Sequence[LoggedRequest]) -> int:
    """Return the maximum number of concurrent requests at the receiver."""
    changes = sorted([(request.at, 1) for request in requests] + [(request.answered_at, -1) for request in requests])
    now = most = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    return most


def _usual_at_once(requests: Sequence[LoggedRequest]) -> float:
    """Return the average number of concurrent requests while the middle half of them began."""
    begin, end = requests[len(requests) // 4].at, requests[3 * len(requests) // 4].at
    open_seconds = sum(max(0.0, min(request.answered_at, end) - max(request.at, begin)) for request in requests)
    return open_seconds / (end - begin)
