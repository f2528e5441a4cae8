"""The effect of millions of old rows and a long backlog on the speed of delivery."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from typing import Any, ClassVar

from django.db import transaction

from webhooks_app.models import Delivery, DeliveryAttempt, Webhook

from .. import backlog, receivers, rows, workers
from .. import statements as sql
from ..delays import emit_steadily, to_first_byte_ms
from ..progress import Progress
from ..scenario import BaseScenario, Figures, Variant, at_most

WEBHOOKS = 20
WINDOWS = 3
LEAD_SECONDS = 0.5
LEAST_DUE = 100_000
"""More deliveries than a worker sends in a window."""


class Growth(BaseScenario):
    name = "growth"
    summary = "delivery beside millions of final rows and a long backlog, compared with empty tables"
    runs = 1
    variants = (
        Variant(
            label="PostgreSQL, native, 1 process",
            targets={f"times_slower_{name}": at_most(1.5) for name in ("throughput", "first_byte", "database")},
        ),
    )
    options: ClassVar = {
        "rows": (10_000_000, "final deliveries; a tenth as many are due"),
        "window": (4.0, f"seconds of each of the {WINDOWS} measurements"),
    }
    quick: ClassVar = {"rows": 100_000, "window": 1.0}
    in_all: ClassVar = {"rows": 1_000_000}

    def measure(self, arguments: argparse.Namespace, variant: Variant, progress: Progress) -> Figures:
        with receivers.nginx() as receiver:
            crowd = _Crowd(receiver, progress, arguments.window)
            crowd.insert_due(LEAST_DUE)
            empty = crowd.windows("empty_")
            Delivery.objects.pending().delete()
            crowd.insert_final(arguments.rows)
            crowd.insert_due(max(LEAST_DUE, arguments.rows // 10))
            full = crowd.windows("full_")
            progress.step("clearing")
        rows.clear()
        return {
            "times_slower_throughput": empty["empty_per_s"] / full["full_per_s"],
            "times_slower_first_byte": full["full_first_byte_ms"] / empty["empty_first_byte_ms"],
            "times_slower_database": full["full_database_ms_per_1000"] / empty["empty_database_ms_per_1000"],
            **empty,
            **full,
        }


class _Crowd:
    """An account with a backlog, and one with few events."""

    def __init__(self, receiver: receivers.Receiver, progress: Progress, window_seconds: float) -> None:
        self._receiver = receiver
        self._progress = progress
        self._window_seconds = window_seconds
        (self._owner,) = rows.make_webhooks(
            [f"{receiver.url}/{index}" for index in range(WEBHOOKS)], subscribers=WEBHOOKS
        )
        self._quiet = rows.make_webhooks([f"{receiver.url}/quiet"], subscribers=1)
        self._webhooks = list(Webhook.objects.filter(owner=self._owner))

    def insert_due(self, count: int) -> None:
        self._progress.step(f"making {count:,} due rows")
        with transaction.atomic():
            event = rows.emit_one(self._owner)
            missing = count // WEBHOOKS - len(_events(self._owner))
            if missing > 0:
                backlog.copy_event(event, missing)
            backlog.copy_delivery(event.deliveries.all()[0], self._webhooks)

    def insert_final(self, count: int) -> None:
        """Insert copies of a final delivery."""
        self._progress.step(f"making {count:,} final rows")
        done = Delivery.objects.filter(state=Delivery.State.SUCCEEDED, webhook__owner=self._owner)[0]
        events = len(_events(self._owner))
        backlog.copy_delivery(done, self._webhooks, times=max(1, count // (events * WEBHOOKS)))
        backlog.analyze()

    def windows(self, prefix: str) -> Figures:
        """Deliver in several windows of time, each with a new worker; return the medians."""
        found = [self._window() for _ in range(WINDOWS)]
        _check(self._receiver)
        return {f"{prefix}{name}": statistics.median(window[name] for window in found) for name in found[0]}

    def _window(self) -> Figures:
        before = self._receiver.count()
        with workers.celery_worker() as worker:
            self._progress.step("delivering")
            while self._receiver.count() == before:
                time.sleep(0.01)
            time.sleep(LEAD_SECONDS)
            sql.start_counting()
            first, began_at = self._receiver.count(), time.monotonic()
            commits = emit_steadily(
                self._quiet, count=int(10 * self._window_seconds), per_second=10, progress=self._progress
            )
            delivered, seconds = self._receiver.count() - first, time.monotonic() - began_at
            database_ms = sql.total_ms()
            rows.wait_until_received(Webhook.objects.filter(owner=self._quiet[0]), self._progress)
            assert worker.process.poll() is None
        return {
            "per_s": delivered / seconds,
            "first_byte_ms": statistics.median(to_first_byte_ms(self._receiver, commits)),
            "database_ms_per_1000": 1000 * database_ms / delivered,
        }


def _events(owner: Any) -> Sequence[str]:
    return list(owner.webhook_events.values_list("pk", flat=True))


def _check(receiver: receivers.Receiver) -> None:
    """Raise RuntimeError unless the attempts and the different requests correspond."""
    requests = receiver.requests()
    different = len({(request.target, request.signature) for request in requests})
    attempts = DeliveryAttempt.objects.count()
    if not attempts == different == len(requests):
        raise RuntimeError(f"{attempts} attempts, {len(requests)} requests, {different} of them different.")
