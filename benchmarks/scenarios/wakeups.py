"""The number of wake-ups in the broker at a high rate of events."""

from __future__ import annotations

import argparse
import threading
import time
from typing import ClassVar, Self

from .. import broker_queue, receivers, rows, workers
from ..progress import Progress
from ..scenario import BaseScenario, Figures, Variant, at_most

TASK_RECEIVED = ("Task webhooks_app.deliver_due[", "] received")
EMITS_PER_SECOND = 1000


class Wakeups(BaseScenario):
    name = "wakeups"
    summary = f"messages in the broker while one process emits {EMITS_PER_SECOND:,} events per second, if it can"
    variants = (
        Variant(label="Redis", targets={"tasks_per_s": at_most(20), "most_queued": at_most(5)}),
        Variant(label="RabbitMQ", broker="rabbitmq", targets={"tasks_per_s": at_most(20), "most_queued": at_most(5)}),
    )
    options: ClassVar = {"seconds": (30, "seconds of emitting")}
    quick: ClassVar = {"seconds": 3}

    def measure(self, arguments: argparse.Namespace, variant: Variant, progress: Progress) -> Figures:
        with receivers.nginx() as receiver, workers.celery_worker(variant.workers) as worker:
            (owner,) = rows.make_webhooks([f"{receiver.url}/0"], subscribers=1)
            warmed_up = rows.warm_up([owner], [worker], receiver, progress, processes=variant.workers)
            progress.step("emitting", arguments.seconds * EMITS_PER_SECOND)
            tasks_before = worker.count(*TASK_RECEIVED)
            started_at = time.monotonic()
            with QueueWatch() as queue:
                emitted = _emit(owner, arguments.seconds, progress)
            seconds = time.monotonic() - started_at
            tasks = worker.count(*TASK_RECEIVED) - tasks_before
            progress.step("delivering", emitted)
            rows.wait_until_delivered(receiver, warmed_up + emitted, progress)
            rows.check(receiver, warmed_up + emitted)
        rows.clear()
        return {
            "tasks_per_s": tasks / seconds,
            "most_queued": float(queue.most),
            "emits_per_s": emitted / seconds,
        }


class QueueWatch:
    """The maximum length of the broker's queue during the block."""

    def __init__(self) -> None:
        self.most = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        with broker_queue.length() as length:
            while not self._over.wait(0.1):
                self.most = max(self.most, length())


def _emit(owner: object, seconds: float, progress: Progress) -> int:
    """Emit at a limited rate; return the number of events."""
    started_at = time.monotonic()
    emitted = 0
    while (elapsed := time.monotonic() - started_at) < seconds:
        if emitted > elapsed * EMITS_PER_SECOND:
            time.sleep(0.001)
            continue
        rows.emit_one(owner)
        emitted += 1
        progress.done(emitted)
    return emitted
