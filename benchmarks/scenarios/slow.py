"""The costs of thousands of concurrent requests to slow receivers."""

from __future__ import annotations

import argparse
import threading
from collections.abc import Sequence
from typing import ClassVar, Self

from django.db import transaction

from .. import receivers, rows, workers
from ..progress import Progress
from ..receivers import LoggedRequest
from ..scenario import BaseScenario, Figures, Variant, at_least, at_most

IN_FLIGHT = 4000
WINDOW = 6 * IN_FLIGHT
"""Slow webhooks hold a quarter of it, of which their only owner holds three quarters."""

WEBHOOKS = 400
"""Each has its own host. There are so many that their limits of requests in flight are not reached."""

ANSWER_SECONDS = 1.0
SAMPLE_SECONDS = 0.2


class Slow(BaseScenario):
    name = "slow"
    summary = f"receivers that take {ANSWER_SECONDS:g} s for each request, up to {IN_FLIGHT:,} in flight in one process"
    variants = (
        Variant(
            label="PostgreSQL, native, 1 process",
            settings={"WEBHOOKS_MAX_IN_FLIGHT": WINDOW},
            targets={
                "deliveries_per_s": at_least(3200),
                "cpu_s_per_1000": at_most(0.2),
                "kb_per_in_flight": at_most(25),
            },
        ),
    )
    options: ClassVar = {"slow_events": (200, f"events, each to {WEBHOOKS} webhooks")}
    quick: ClassVar = {"slow_events": 20}

    def measure(self, arguments: argparse.Namespace, variant: Variant, progress: Progress) -> Figures:
        expected = arguments.slow_events * WEBHOOKS
        addresses = receivers.hosts(WEBHOOKS)
        slow = receivers.slow(ANSWER_SECONDS, addresses=addresses)
        with slow as receiver, workers.celery_worker(variant.workers) as worker:
            urls = [f"{receiver.url_at(address)}/{index}" for index, address in enumerate(addresses)]
            owners = rows.make_webhooks(urls, subscribers=WEBHOOKS)
            warmed_up = rows.warm_up(owners, [worker], receiver, progress, processes=variant.workers)
            progress.step("emitting", arguments.slow_events)
            with transaction.atomic():
                for index in range(arguments.slow_events):
                    rows.emit_one(owners[0])
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
            "cpu_s_per_1000": 1000 * cpu / expected,
            "kb_per_in_flight": memory.growth_bytes / 1024 / most,
            "most_in_flight": float(most),
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
