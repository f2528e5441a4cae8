"""A burst: many events that are due at once, delivered by warm workers, and its costs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from django.db import transaction

from . import machine, receivers, rows, statements, workers
from .progress import Progress

WEBHOOKS = 20
SUBSCRIBERS = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Burst:
    """The costs of a burst, without those of starting the workers."""

    deliveries: int
    per_second: float
    cpu_seconds: float
    busy_cores: float
    engines: int
    statements: int | None
    key_checks: int | None


def deliver(
    events: int,
    receiver: receivers.Receiver,
    progress: Progress,
    *,
    processes: Sequence[int] = (1,),
) -> Burst:
    """Deliver events of 1 KB, each to 10 of 20 webhooks, with one worker for each number in ``processes``.

    Raise RuntimeError unless each delivery was sent exactly once, by the rows and by the receiver's log. The rows are
    left.
    """
    expected = events * SUBSCRIBERS
    counts = statements.is_counting()
    with ExitStack() as stack:
        senders = [
            stack.enter_context(workers.celery_worker(count, name=f"worker{number}"))
            for number, count in enumerate(processes)
        ]
        owners = rows.make_webhooks([f"{receiver.url}/{index}" for index in range(WEBHOOKS)], subscribers=SUBSCRIBERS)
        warmed_up = rows.warm_up(owners, senders, receiver, progress, processes=sum(processes))
        progress.step("emitting", events)
        with transaction.atomic():  # one commit makes all deliveries due
            for index in range(events):
                rows.emit_one(owners[index % len(owners)])
                progress.done(index)
            cpu_before, busy_before, began_at = _cpu_seconds(senders), machine.busy_seconds(), time.monotonic()
            if counts:
                statements.start_counting()
        progress.step("delivering", expected)
        rows.wait_until_delivered(receiver, warmed_up + expected, progress)
        cpu = _cpu_seconds(senders) - cpu_before
        busy_cores = (machine.busy_seconds() - busy_before) / (time.monotonic() - began_at)
        sql, key_checks = (statements.counted(), statements.counted_foreign_key_checks()) if counts else (None, None)
        engines = rows.engines(senders)
        rows.check(receiver, warmed_up + expected)
    moments = sorted(request.at for request in receiver.requests())[warmed_up:]
    seconds = max(moments[-1] - moments[0], 0.001)
    return Burst(
        deliveries=expected,
        per_second=expected / seconds,
        cpu_seconds=cpu,
        busy_cores=busy_cores,
        engines=engines,
        statements=sql,
        key_checks=key_checks,
    )


def _cpu_seconds(senders: Sequence[workers.Worker]) -> float:
    return sum(worker.cpu_seconds() for worker in senders)
