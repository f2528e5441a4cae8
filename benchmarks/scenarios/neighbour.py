"""The effect of one account's backlog on the events of another."""

from __future__ import annotations

import argparse
from typing import ClassVar

from django.db import transaction

from webhooks_app.models import Delivery, Webhook

from .. import backlog, receivers, rows, workers
from ..delays import emit_steadily, percentiles, to_first_byte_ms
from ..progress import Progress
from ..scenario import BaseScenario, Figures, Variant, at_most

PER_SECOND = 10
WEBHOOKS = 20


class Neighbour(BaseScenario):
    name = "neighbour"
    summary = f"{PER_SECOND} events per second of one account while another has a backlog"
    variants = (Variant(label="PostgreSQL, native, 1 process", targets={"beside_p95_ms": at_most(250)}),)
    options: ClassVar = {
        "backlog": (200_000, "due deliveries of the other account"),
        "neighbour_events": (100, f"events, {PER_SECOND} per second, alone and then beside the backlog"),
    }
    quick: ClassVar = {"backlog": 20_000, "neighbour_events": 20}

    def measure(self, arguments: argparse.Namespace, variant: Variant, progress: Progress) -> Figures:
        count = arguments.neighbour_events
        with receivers.nginx() as receiver, workers.celery_worker(variant.workers) as worker:
            owners = rows.make_webhooks([f"{receiver.url}/mine"], subscribers=1)
            (crowd,) = rows.make_webhooks(
                [f"{receiver.url}/{index}" for index in range(WEBHOOKS)], subscribers=WEBHOOKS
            )
            warmed_up = rows.warm_up(owners, [worker], receiver, progress, processes=variant.workers)
            progress.step("alone", count)
            alone = emit_steadily(owners, count=count, per_second=PER_SECOND, progress=progress)
            progress.step("making the backlog")
            with transaction.atomic():
                pattern = rows.emit_one(crowd)
                backlog.copy_event(pattern, arguments.backlog // WEBHOOKS - 1)
                webhooks = list(Webhook.objects.filter(owner=crowd))
                due = backlog.copy_delivery(pattern.deliveries.all()[0], webhooks) + WEBHOOKS
            progress.step("beside", count)
            beside = emit_steadily(owners, count=count, per_second=PER_SECOND, progress=progress)
            left = Delivery.objects.filter(webhook__owner=crowd).pending().count()
            expected = warmed_up + len(alone) + len(beside) + due
            progress.step("delivering the rest", expected)
            rows.wait_until_delivered(receiver, expected, progress)
            rows.check(receiver, expected)
            figures = {
                **percentiles("alone_", to_first_byte_ms(receiver, alone)),
                **percentiles("beside_", to_first_byte_ms(receiver, beside)),
            }
        rows.clear()
        return {**figures, "backlog_left": float(left)}
