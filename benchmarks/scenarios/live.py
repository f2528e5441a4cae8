"""The costs of a delivery while events arrive one by one, and not as a burst."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from typing import ClassVar

from .. import counters, receivers, rows, statements, workers
from ..burst import SUBSCRIBERS, WEBHOOKS
from ..delays import emit_steadily, percentiles, to_first_byte_ms
from ..progress import Progress
from ..scenario import BaseScenario, Figures, Variant

LOADS = (20, 200, 500)
"""Events per second, each with 10 deliveries."""


class Live(BaseScenario):
    name = "live"
    summary = "the costs of one delivery while events arrive steadily, in the worker, the emitter and the database"
    variants = tuple(Variant(label=f"PostgreSQL, {load} events/s", broker="none") for load in LOADS)
    options: ClassVar = {"live_seconds": (10.0, "seconds of emitting")}
    quick: ClassVar = {"live_seconds": 1.0}

    def measure(self, arguments: argparse.Namespace, variant: Variant, progress: Progress) -> Figures:
        per_second = int(variant.label.split()[1])
        events = round(per_second * arguments.live_seconds)
        expected = events * SUBSCRIBERS
        counters.quieten()
        with receivers.nginx() as receiver, workers.worker_without_broker() as worker:
            owners = rows.make_webhooks(
                [f"{receiver.url}/{index}" for index in range(WEBHOOKS)], subscribers=SUBSCRIBERS
            )
            warmed_up = rows.warm_up(owners, [worker], receiver, progress)
            progress.step("emitting", events)
            if statements.is_counting():
                statements.start_counting()
            server, worker_before, began_at = Counter[str](), worker.cpu_seconds(), time.monotonic()
            with counters.counting(server):
                emitter_before = time.process_time()
                commits = emit_steadily(owners, count=events, per_second=per_second, progress=progress)
                emitter_seconds = time.process_time() - emitter_before
                seconds = time.monotonic() - began_at
                rows.wait_until_delivered(receiver, warmed_up + expected, progress)
            worker_seconds = worker.cpu_seconds() - worker_before
            rows.check(receiver, warmed_up + expected)
            figures = {
                "events_per_s": events / seconds,
                "worker_cpu_s_per_1000": 1000 * worker_seconds / expected,
                "emitter_cpu_s_per_1000": 1000 * emitter_seconds / expected,
                "database_cpu_s_per_1000": server["cpu_ns"] / 1e6 / expected,
                **{name: server[name] / expected for name in ("wal_bytes", "buffers", "index_entries")},
                **percentiles("", to_first_byte_ms(receiver, commits, subscribers=SUBSCRIBERS)),
            }
            if (counted := statements.counted_by_server()) is not None:
                figures["worker_statements"] = counted / expected
        rows.clear()
        return figures
