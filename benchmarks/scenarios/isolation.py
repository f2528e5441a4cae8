"""Whether a receiver that hangs delays a webhook that does not."""

from __future__ import annotations

import argparse
from typing import ClassVar

from django.db import transaction

from .. import receivers, rows, workers
from ..delays import emit_steadily, percentiles, to_first_byte_ms
from ..progress import Progress
from ..scenario import BaseScenario, Figures, Variant, at_most

HANGING_SECONDS = 30.0
HANGING_WEBHOOKS = 20
PER_SECOND = 20


class Isolation(BaseScenario):
    name = "isolation"
    summary = f"a healthy webhook while thousands of deliveries meet a receiver that hangs for {HANGING_SECONDS:g} s"
    variants = (
        Variant(
            label="PostgreSQL, curl, 1 process",
            targets={"beside_p99_ms": at_most(60), "times_p99_alone": at_most(2)},
        ),
    )
    options: ClassVar = {
        "hanging": (3000, "deliveries to the receiver that hangs"),
        "healthy_events": (300, f"events to the healthy webhook, {PER_SECOND} a second, alone and then beside"),
    }
    quick: ClassVar = {"hanging": 500, "healthy_events": 60}

    def measure(self, arguments: argparse.Namespace, variant: Variant, progress: Progress) -> Figures:
        count = arguments.healthy_events
        with (
            receivers.slow(HANGING_SECONDS) as hanging,
            receivers.nginx() as healthy,
            # What hangs is not waited for at the end.
            workers.celery_worker(variant.workers, patience_seconds=0) as worker,
        ):
            owners = rows.make_webhooks([f"{healthy.url}/healthy"], subscribers=1)
            stuck = rows.make_webhooks(
                [f"{hanging.url}/{index}" for index in range(HANGING_WEBHOOKS)], subscribers=HANGING_WEBHOOKS
            )
            rows.warm_up(owners, [worker], healthy, progress, processes=variant.workers)
            progress.step("alone", count)
            alone = emit_steadily(owners, count=count, per_second=PER_SECOND, progress=progress)
            with transaction.atomic():
                for _ in range(arguments.hanging // HANGING_WEBHOOKS):
                    rows.emit_one(stuck[0])
            progress.step("beside", count)
            beside = emit_steadily(owners, count=count, per_second=PER_SECOND, progress=progress)
            rows.wait_until_received(healthy, owners[0], progress)
            figures = {
                **percentiles("alone_", to_first_byte_ms(healthy, alone)),
                **percentiles("beside_", to_first_byte_ms(healthy, beside)),
            }
        rows.clear()
        return {"times_p99_alone": figures["beside_p99_ms"] / figures["alone_p99_ms"], **figures}
