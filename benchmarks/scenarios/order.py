"""PostgreSQL's cost of an ordered delivery behind 10 and 100,000 waiting ones."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import ClassVar

from django.db import DEFAULT_DB_ALIAS

from tests.support.queues import LookingQueue
from webhooks_app.conf import settings
from webhooks_app.delivery.claim import Claim
from webhooks_app.delivery.recording import record
from webhooks_app.delivery.schedule import FREED_WITHIN
from webhooks_app.delivery.sending import finish, request_for
from webhooks_app.delivery.slots import Slots
from webhooks_app.delivery.sql import sql_for
from webhooks_app.models import Delivery, QueueEntry, QueueLane, Webhook
from webhooks_app.transport import Exchange, Response

from .. import backlog, counters, rows
from ..progress import Progress
from ..scenario import BaseScenario, Figures, Variant
from ..stepped import SteppedClock

WAITING = {"behind 10": 10, "behind 100,000": 100_000}
COUNTS = ("buffers", "statements", "wal_bytes")
ROUNDS = 5
"""Deliveries that are recorded and claimed, one after the other, as a worker does between two looks."""


class Order(BaseScenario):
    name = "order"
    summary = "PostgreSQL's cost of an ordered delivery behind 10 and 100,000 waiting ones"
    variants = tuple(Variant(label=label, broker="folder") for label in WAITING)
    options: ClassVar = {"most": (100_000, "deliveries that wait, at most")}
    quick: ClassVar = {"most": 500}

    def measure(self, arguments: argparse.Namespace, variant: Variant, progress: Progress) -> Figures:
        waiting = min(WAITING.get(variant.label, arguments.most), arguments.most)
        progress.step("queueing")
        webhook_id = _make_waiting(waiting + ROUNDS)
        counters.quieten()
        clock = SteppedClock()
        queue = _queue(clock)
        progress.step("parking")
        claims, parked = _parked(queue, waiting)
        progress.step("claiming", ROUNDS)
        claimed, recorded = Counter[str](), Counter[str]()
        for number in range(ROUNDS):
            with counters.counting(recorded):
                _record(queue, claims, clock)
            with counters.counting(claimed):
                claims = queue.claim_of(
                    [webhook_id], settings.BATCH_SIZE, due_from={webhook_id: clock() - FREED_WITHIN}
                )
            _check(claims)
            progress.done(number)
        rows.clear()
        return {
            **{f"claim_{name}": claimed[name] / ROUNDS for name in COUNTS},
            **{f"record_{name}": recorded[name] / ROUNDS for name in COUNTS},
            "park_buffers_per_delivery": parked["buffers"] / waiting,
        }

    def compare(self, results: dict[str, Figures]) -> None:  # type: ignore[override]
        few, many = (results.get(label) for label in WAITING)
        if few and many:
            many["claim_buffers_ratio"] = many["claim_buffers"] / few["claim_buffers"]
            many["record_buffers_ratio"] = many["record_buffers"] / few["record_buffers"]


def _queue(clock: SteppedClock) -> LookingQueue:
    lease = timedelta(seconds=settings.LEASE_SECONDS)
    return LookingQueue(using=DEFAULT_DB_ALIAS, clock=clock, lease=lease, slots=Slots(window=10_000, cap=50))


def _make_waiting(number: int) -> str:
    (owner,) = rows.make_webhooks(["http://127.0.0.1:9/ordered"], subscribers=1)
    webhook = Webhook.objects.get(owner=owner)
    Webhook.objects.filter(pk=webhook.pk).update(order="webhook")
    QueueLane.objects.create(webhook=webhook, is_fast=True)
    rows.emit_one(owner)
    backlog.queue_copies(Delivery.objects.get(webhook=webhook), number)
    backlog.analyze()
    return webhook.pk


def _parked(queue: LookingQueue, waiting: int) -> tuple[list[Claim], Counter[str]]:
    """Claim the first delivery, and look until all others are parked; return the claim, and the counts."""
    counts = Counter[str]()
    with counters.counting(counts):
        claims = queue.claim(settings.BATCH_SIZE)
        queue.claim(settings.BATCH_SIZE)
        while queue.look_again_at is not None:
            queue.claim(settings.BATCH_SIZE)
    _check(claims)
    if (parked := QueueEntry.objects.parked().count()) < waiting:
        raise RuntimeError(f"{parked} deliveries are parked, at least {waiting} were expected.")
    return claims, counts


def _record(queue: LookingQueue, claims: Sequence[Claim], clock: SteppedClock) -> None:
    requests = [request_for(claim, now=clock(), timeout_seconds=30) for claim in claims]
    finished = [
        finish(Exchange(request=request, duration_seconds=0.01, response=Response(status=200))) for request in requests
    ]
    record(sql_for(DEFAULT_DB_ALIAS), finished, clock())
    queue.forget(claims)


def _check(claims: Sequence[Claim]) -> None:
    if len(claims) != 1:
        raise RuntimeError(f"{len(claims)} deliveries of one group were claimed.")
