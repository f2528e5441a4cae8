"""The delay between the commit of an event and its arrival at the receiver."""

from __future__ import annotations

import argparse
import time
from contextlib import AbstractContextManager
from typing import ClassVar, TypeAlias

from .. import receivers, rows, statements, workers
from ..delays import emit_steadily, percentiles, slowest, steps, to_first_byte_ms
from ..progress import Progress
from ..scenario import BaseScenario, Figures, Target, Variant, at_most

IDLE_PER_SECOND = 2.5
"""So few that the engine sleeps before each event."""

BUSY_PER_SECOND = 200

SETTLE_SECONDS = 2
"""Time for maintenance after the warm-up."""


Limits: TypeAlias = tuple[float, float | None, float]
"""The targets for the 50th, 95th and 99th percentile in ms."""


def _targets(*, idle: Limits, busy: Limits) -> dict[str, Target]:
    return {
        f"{load}_{name}": at_most(limit)
        for load, limits in (("idle", idle), ("busy", busy))
        for name, limit in zip(("p50_ms", "p95_ms", "p99_ms"), limits, strict=True)
        if limit
    }


NOTIFIED = _targets(idle=(7, 15, 40), busy=(1.5, 3, 5))
EMBEDDED = _targets(idle=(30, None, 70), busy=(30, None, 70))
WITHOUT_BROKER = {"idle_p95_ms": at_most(60), "still_cpu_percent": at_most(1)}
"""Targets for `manage.py deliver_webhooks`, which detects commits by polling or notifications."""


class Latency(BaseScenario):
    name = "latency"
    summary = "from the commit to the first byte at the receiver, idle and at 200 events/s; CPU of an idle worker"
    variants = (
        Variant(label="PostgreSQL, Redis", targets=NOTIFIED),
        Variant(label="PostgreSQL, RabbitMQ", broker="rabbitmq", targets=NOTIFIED),
        Variant(label="embedded: SQLite, a folder", database="sqlite", broker="folder", targets=EMBEDDED),
        *(
            Variant(label=f"{name}, no broker", database=database, broker="none", targets=WITHOUT_BROKER)
            for name, database in (("PostgreSQL", "postgresql"), ("MariaDB", "mariadb"), ("SQLite", "sqlite"))
        ),
    )
    options: ClassVar = {
        "still_seconds": (20, "seconds without events, to measure the CPU time of the worker"),
        "idle_events": (60, "events with pauses between them"),
        "busy_events": (1000, f"events at {BUSY_PER_SECOND} per second"),
    }
    quick: ClassVar = {"still_seconds": 2, "idle_events": 10, "busy_events": 200}

    def measure(self, arguments: argparse.Namespace, variant: Variant, progress: Progress) -> Figures:
        with receivers.nginx() as receiver, _worker(variant) as worker:
            owners = rows.make_webhooks([f"{receiver.url}/{index}" for index in range(10)], subscribers=1)
            warmed_up = rows.warm_up(owners, [worker], receiver, progress, processes=variant.workers)
            still = _still(worker, arguments.still_seconds, progress)
            progress.step("idle", arguments.idle_events)
            idle = emit_steadily(owners, count=arguments.idle_events, per_second=IDLE_PER_SECOND, progress=progress)
            progress.step("busy", arguments.busy_events)
            busy = emit_steadily(owners, count=arguments.busy_events, per_second=BUSY_PER_SECOND, progress=progress)
            expected = warmed_up + len(idle) + len(busy)
            rows.wait_until_delivered(receiver, expected, progress)
            rows.check(receiver, expected)
            busy_steps = steps(receiver, busy)
            figures = {
                **still,
                **percentiles("idle_", to_first_byte_ms(receiver, idle)),
                **percentiles("busy_", [each.both for each in busy_steps]),
                **slowest("busy_", busy_steps),
            }
        rows.clear()
        return figures


def _worker(variant: Variant) -> AbstractContextManager[workers.Worker]:
    return workers.worker_without_broker() if variant.broker == "none" else workers.celery_worker(variant.workers)


def _still(worker: workers.Worker, seconds: float, progress: Progress) -> Figures:
    """Return the percentage of a core and the statements per second that the worker uses without events."""
    progress.step("still")
    time.sleep(SETTLE_SECONDS)
    if statements.is_counting():
        statements.start_counting()
    counted, cpu, started_at = statements.counted_by_server(), worker.cpu_seconds(), time.monotonic()
    time.sleep(seconds)
    seconds = time.monotonic() - started_at
    figures = {"still_cpu_percent": 100 * (worker.cpu_seconds() - cpu) / seconds}
    if counted is not None and (now := statements.counted_by_server()) is not None:
        figures["still_statements_per_s"] = (now - counted) / seconds
    return figures
