"""The stability of workers over a long time."""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any, ClassVar

from webhooks_app.models import Delivery

from .. import burst, receivers, rows, workers
from ..progress import Progress
from ..scenario import BaseScenario, Figures, Variant, at_most

SAMPLE_SECONDS = 2.0
SETTLED = 0.1
"""The share of the time that is ignored for memory."""

LIMIT_EVENTS = 1000


class Soak(BaseScenario):
    name = "soak"
    summary = "a worker at half of its capacity for a long time: its memory, and pending deliveries at the end"
    runs = 1
    variants = (
        Variant(
            label="PostgreSQL, native, 1 process",
            targets={"memory_spread": at_most(0.05), "rows_left": at_most(0)},
        ),
    )
    options: ClassVar = {"minutes": (30.0, "duration in minutes")}
    quick: ClassVar = {"minutes": 0.2}
    in_all: ClassVar = {"minutes": 3.0}

    def measure(self, arguments: argparse.Namespace, variant: Variant, progress: Progress) -> Figures:
        with receivers.nginx() as receiver:
            limit = burst.deliver(LIMIT_EVENTS, receiver, progress, processes=(variant.workers,)).per_second
        rows.clear()
        with receivers.nginx() as receiver, workers.celery_worker(variant.workers) as worker:
            owners = rows.make_webhooks(
                [f"{receiver.url}/{index}" for index in range(burst.WEBHOOKS)], subscribers=burst.SUBSCRIBERS
            )
            warmed_up = rows.warm_up(owners, [worker], receiver, progress, processes=variant.workers)
            seconds = 60 * arguments.minutes
            progress.step("soaking", round(seconds))
            emitted, memory = _soak(owners, worker, limit / 2 / burst.SUBSCRIBERS, seconds, progress)
            expected = warmed_up + emitted * burst.SUBSCRIBERS
            rows.wait_until_delivered(receiver, expected, progress)
            left = Delivery.objects.pending().count()
            rows.check(receiver, expected)
        rows.clear()
        settled = memory[int(len(memory) * SETTLED) :]
        return {
            "memory_spread": max(abs(size / statistics.median(settled) - 1) for size in settled),
            "rows_left": float(left),
            "deliveries_per_s": emitted * burst.SUBSCRIBERS / seconds,
            "limit_per_s": limit,
            "memory_mb": statistics.median(settled) / 1e6,
        }


def _soak(
    owners: list[Any], worker: workers.Worker, events_per_second: float, seconds: float, progress: Progress
) -> tuple[int, list[int]]:
    """Emit steadily; return the number of events, and the worker's memory every few seconds."""
    started_at = time.monotonic()
    emitted, memory = 0, [worker.resident_bytes()]
    while (elapsed := time.monotonic() - started_at) < seconds:
        if elapsed > len(memory) * SAMPLE_SECONDS:
            memory.append(worker.resident_bytes())
            progress.done(round(elapsed))
        if emitted > elapsed * events_per_second:
            time.sleep(0.001)
            continue
        rows.emit_one(owners[emitted % len(owners)])
        emitted += 1
    return emitted, memory
