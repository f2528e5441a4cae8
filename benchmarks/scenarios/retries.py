"""The punctuality of retries, from the end of the failed attempt in the receiver's log."""

from __future__ import annotations

import argparse
import itertools
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, ClassVar

from django.db import transaction

from webhooks_app.models import Delivery, DeliveryAttempt
from webhooks_app.retry import DelaysPolicy

from .. import receivers, rows, workers
from ..delays import percentiles
from ..progress import Progress
from ..scenario import BaseScenario, Figures, Variant, at_least, at_most

DELAYS_SECONDS = (1, 5, 10)
SPREAD_SECONDS = 10
TOGETHER = "all at once"
EARLY_MS = 2
"""Maximum error of the receiver's log for both ends of a delay, in whole milliseconds."""


class BenchmarkPolicy(DelaysPolicy):
    name = "benchmark"
    delays_seconds = DELAYS_SECONDS


class Retries(BaseScenario):
    name = "retries"
    summary = f"delay of each retry after its due time if every attempt fails; retries after {DELAYS_SECONDS} s"
    variants = (
        Variant(
            label=f"spread over {SPREAD_SECONDS} s",
            settings={"WEBHOOKS_RETRY_POLICIES": [f"{__name__}.BenchmarkPolicy"]},
            targets={"late_p99_ms": at_most(40), "earliest_ms": at_least(0)},
        ),
        Variant(
            label=TOGETHER,
            settings={"WEBHOOKS_RETRY_POLICIES": [f"{__name__}.BenchmarkPolicy"]},
            targets={"late_p99_ms": at_most(400), "earliest_ms": at_least(0)},
        ),
    )
    options: ClassVar = {"failing": (1000, "failing webhooks, one delivery each")}
    quick: ClassVar = {"failing": 100}

    def measure(self, arguments: argparse.Namespace, variant: Variant, progress: Progress) -> Figures:
        count = arguments.failing
        expected = count * (1 + len(DELAYS_SECONDS))
        with receivers.nginx(status=500) as receiver, workers.celery_worker(variant.workers):
            together = variant.label == TOGETHER
            owners = rows.make_webhooks(
                [f"{receiver.url}/{index}" for index in range(count)], subscribers=count if together else 1
            )
            progress.step("emitting", len(owners))
            _emit(owners, 0 if together else SPREAD_SECONDS / count, progress)
            progress.step("failing", expected)
            rows.wait_until_delivered(receiver, expected, progress)
            _check(receiver, count, expected)
            late = _lateness_ms(receiver)
        rows.clear()
        return {**percentiles("late_", late), "earliest_ms": min(late)}


def _emit(owners: Sequence[Any], pause_seconds: float, progress: Progress) -> None:
    with transaction.atomic() if not pause_seconds else nullcontext():
        for index, owner in enumerate(owners):
            rows.emit_one(owner)
            progress.done(index)
            time.sleep(pause_seconds)


def _check(receiver: receivers.Receiver, count: int, expected: int) -> None:
    given_up = Delivery.objects.filter(state=Delivery.State.GIVEN_UP).count()
    attempts, requests = DeliveryAttempt.objects.count(), receiver.count()
    if (given_up, attempts, requests) != (count, expected, expected):
        raise RuntimeError(f"Given up: {given_up} of {count}; {attempts} attempts, {requests} requests of {expected}.")


def _lateness_ms(receiver: receivers.Receiver) -> list[float]:
    """Return the delay of each retry after its due time."""
    by_webhook = defaultdict(list)
    for request in receiver.requests():
        by_webhook[request.target].append(request)
    late = []
    for requests in by_webhook.values():
        requests.sort(key=lambda request: request.at)
        for (failed, retry), delay in zip(itertools.pairwise(requests), DELAYS_SECONDS, strict=True):
            late.append(1000 * (retry.at - failed.answered_at - delay))
    if min(late) < -EARLY_MS:
        raise RuntimeError(f"A retry was {-min(late):.1f} ms early.")
    return late
