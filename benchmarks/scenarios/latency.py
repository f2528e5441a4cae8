"""How soon a committed event is at the receiver."""

from __future__ import annotations

import argparse
from typing import ClassVar

from .. import receivers, rows, workers
from ..delays import emit_steadily, percentiles, to_first_byte_ms
from ..progress import Progress
from ..scenario import BaseScenario, Figures, Target, Variant, at_most

IDLE_PER_SECOND = 2.5
"""So seldom that an engine is asleep when an event comes."""

BUSY_PER_SECOND = 200


def _targets(p50: float, p95: float | None, p99: float) -> dict[str, Target]:
    limits = {"p50_ms": p50, "p95_ms": p95, "p99_ms": p99}
    return {f"{load}_{name}": at_most(limit) for load in ("idle", "busy") for name, limit in limits.items() if limit}


class Latency(BaseScenario):
    name = "latency"
    summary = "from the commit to the first byte at the receiver, idle and at 200 events a second"
    variants = (
        Variant(label="PostgreSQL, Redis", targets=_targets(7, 15, 40)),
        Variant(label="PostgreSQL, RabbitMQ", broker="rabbitmq", targets=_targets(7, 15, 40)),
        Variant(label="embedded: SQLite, a folder", database="sqlite", broker="folder", targets=_targets(30, None, 70)),
    )
    options: ClassVar = {
        "idle_events": (60, "events with pauses between them"),
        "busy_events": (1000, f"events at {BUSY_PER_SECOND} a second"),
    }
    quick: ClassVar = {"idle_events": 10, "busy_events": 200}

    def measure(self, arguments: argparse.Namespace, variant: Variant, progress: Progress) -> Figures:
        with receivers.nginx() as receiver, workers.celery_worker(variant.workers) as worker:
            owners = rows.make_webhooks([f"{receiver.url}/{index}" for index in range(10)], subscribers=1)
            warmed_up = rows.warm_up(owners, [worker], receiver, progress, processes=variant.workers)
            progress.step("idle", arguments.idle_events)
            idle = emit_steadily(owners, count=arguments.idle_events, per_second=IDLE_PER_SECOND, progress=progress)
            progress.step("busy", arguments.busy_events)
            busy = emit_steadily(owners, count=arguments.busy_events, per_second=BUSY_PER_SECOND, progress=progress)
            expected = warmed_up + len(idle) + len(busy)
            rows.wait_until_delivered(receiver, expected, progress)
            rows.check(receiver, expected)
            figures = {
                **percentiles("idle_", to_first_byte_ms(receiver, idle)),
                **percentiles("busy_", to_first_byte_ms(receiver, busy)),
            }
        rows.clear()
        return figures
