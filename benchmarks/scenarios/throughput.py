"""Deliveries per second, their costs, and their ratio to the upper bound of a bare loop."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from datetime import timedelta
from typing import ClassVar

from django.db import transaction
from django.utils import timezone

from webhooks_app.models import Delivery, QueueEntry

from .. import bare, burst, receivers, rows, workers
from ..burst import SUBSCRIBERS, WEBHOOKS
from ..progress import Progress
from ..rivals import one_task_each, packages
from ..scenario import BaseScenario, Figures, Variant, at_least, at_most


class Throughput(BaseScenario):
    name = "throughput"
    summary = "deliveries per second of a burst to 20 webhooks, with 10 deliveries per event of 1 KB"
    variants = (
        Variant(
            label="PostgreSQL, native, 1 process",
            targets={
                "deliveries_per_s": at_least(10_000),
                "ratio_to_ceiling": at_least(0.22),
                "times_one_task_each": at_least(30),
                "times_django_outbound_webhooks": at_least(20),
                "times_django_webhook": at_least(20),
                "cpu_s_per_1000": at_most(0.08),
                "sql_per_delivery": at_most(0.03),
            },
        ),
        Variant(label="PostgreSQL, native, 2 processes", workers=2, targets={"deliveries_per_s": at_least(15_000)}),
        Variant(
            label="PostgreSQL, requests, 1 process",
            transport="requests",
            targets={"deliveries_per_s": at_least(1000)},
        ),
        Variant(label="SQLite, native, 1 process", database="sqlite", targets={"deliveries_per_s": at_least(12_000)}),
        Variant(label="one task each", contestant="one-task-each"),
        Variant(label="django-outbound-webhooks", contestant="django-outbound-webhooks"),
        Variant(label="django-webhook", contestant="django-webhook"),
    )
    options: ClassVar = {
        "events": (3000, "events of the burst"),
        "ceiling_requests": (40_000, "requests of the bare loop, about a second"),
        "rival_events": (50, "events for each rival, which is slower"),
    }
    quick: ClassVar = {"events": 200, "ceiling_requests": 10_000, "rival_events": 20}

    def measure(self, arguments: argparse.Namespace, variant: Variant, progress: Progress) -> Figures:
        if variant.contestant == "ours":
            return _ours(arguments.events, arguments.ceiling_requests, variant, progress)
        if variant.contestant == "one-task-each":
            return _one_task_each(arguments.rival_events, progress)
        return _package(variant.contestant, arguments.rival_events, progress)

    def compare(self, results: Mapping[str, Figures]) -> None:
        rivals = {
            f"times_{variant.contestant.replace('-', '_')}": results[variant.label]["deliveries_per_s"]
            for variant in self.variants
            if variant.contestant != "ours" and variant.label in results
        }
        for label, figures in results.items():
            if "ceiling_per_s" in figures:
                results[label].update(
                    {name: figures["deliveries_per_s"] / per_second for name, per_second in rivals.items()}
                )


def _ours(events: int, ceiling_requests: int, variant: Variant, progress: Progress) -> Figures:
    with receivers.nginx() as receiver:
        found = burst.deliver(events, receiver, progress, processes=(variant.workers,))
        progress.step("the bare loop")
        ceiling = bare.deliveries_per_second(receiver.url, ceiling_requests)
    rows.clear()
    figures = {
        "deliveries_per_s": found.per_second,
        "ceiling_per_s": ceiling,
        "ratio_to_ceiling": found.per_second / ceiling,
        "cpu_s_per_1000": 1000 * found.cpu_seconds / found.deliveries,
    }
    if found.statements is not None and found.key_checks is not None:
        figures["sql_per_delivery"] = found.statements / found.deliveries
        figures["key_checks_per_delivery"] = found.key_checks / found.deliveries
    return figures


def _one_task_each(events: int, progress: Progress) -> Figures:
    """Deliver the same rows with one task each, by two prefork children, Celery's default on two cores."""
    expected = events * SUBSCRIBERS
    with receivers.nginx() as receiver:
        owners = rows.make_webhooks([f"{receiver.url}/{index}" for index in range(WEBHOOKS)], subscribers=SUBSCRIBERS)
        with transaction.atomic():
            for index in range(events):
                rows.emit_one(owners[index % len(owners)])
            # The worker's own engine must not claim them.
            QueueEntry.objects.update(due_at=timezone.now() + timedelta(days=1))
        one_task_each.queue(list(Delivery.objects.values_list("pk", flat=True)))
        progress.step("delivering", expected)
        with workers.celery_worker(2):
            rows.wait_until_delivered(receiver, expected, progress)
        rows.check(receiver, expected)
        per_second = expected / _seconds(receiver)
    rows.clear()
    return {"deliveries_per_s": per_second}


def _package(name: str, events: int, progress: Progress) -> Figures:
    expected = events * SUBSCRIBERS
    with receivers.nginx() as receiver:
        packages.deliver(name, receiver, events, expected, progress)
        per_second = expected / _seconds(receiver)
    return {"deliveries_per_s": per_second}


def _seconds(receiver: receivers.Receiver) -> float:
    """Return the time from the first request to the last."""
    moments = [request.at for request in receiver.requests()]
    return max(max(moments) - min(moments), 0.001)
