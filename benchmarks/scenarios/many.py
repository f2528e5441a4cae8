"""The effect of the number of webhooks and hosts on the same number of deliveries."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, ClassVar

from django.db import transaction

from .. import receivers, rows, workers
from ..progress import Progress
from ..scenario import BaseScenario, Figures, Variant, at_most

HOSTS = 200
FEW = 20


class Many(BaseScenario):
    name = "many"
    summary = f"one event to each of many webhooks on {HOSTS} hosts, compared with as many to {FEW} webhooks on one"
    variants = (Variant(label="PostgreSQL, native, 1 process", targets={"times_slower_to_many": at_most(1.3)}),)
    options: ClassVar = {"webhooks": (10_000, "webhooks, and deliveries")}
    quick: ClassVar = {"webhooks": 2000}

    def measure(self, arguments: argparse.Namespace, variant: Variant, progress: Progress) -> Figures:
        count = arguments.webhooks
        addresses = receivers.hosts(HOSTS)
        with receivers.nginx(addresses=addresses) as receiver, workers.celery_worker(variant.workers) as worker:
            few = rows.make_webhooks([f"{receiver.url}/few/{index}" for index in range(FEW)], subscribers=FEW)
            warmed_up = rows.warm_up(few, [worker], receiver, progress, processes=variant.workers)
            urls = [f"{receiver.url_at(addresses[index % HOSTS])}/many/{index}" for index in range(count)]
            many = rows.make_webhooks(urls, subscribers=count)
            figures = {
                "to_few_per_s": _per_second(receiver, few, count // FEW, count // FEW * FEW, progress),
                "to_many_per_s": _per_second(receiver, many, 1, count, progress),
            }
            rows.check(receiver, warmed_up + count // FEW * FEW + count)
        rows.clear()
        return {"times_slower_to_many": figures["to_few_per_s"] / figures["to_many_per_s"], **figures}


def _per_second(
    receiver: receivers.Receiver, owners: Sequence[Any], events: int, expected: int, progress: Progress
) -> float:
    before = receiver.count()
    with transaction.atomic():
        for _ in range(events):
            rows.emit_one(owners[0])
    progress.step("delivering", before + expected)
    rows.wait_until_delivered(receiver, before + expected, progress)
    moments = sorted(request.at for request in receiver.requests())[before:]
    return expected / max(moments[-1] - moments[0], 0.001)
