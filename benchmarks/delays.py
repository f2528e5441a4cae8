"""Delays from the commit of an event to its first byte at the receiver."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from django.db import transaction

from webhooks_app import emit
from webhooks_app.models import DeliveryAttempt

from .progress import Progress
from .receivers import LoggedRequest, Receiver
from .rows import DATA, EVENT_TYPE
from .scenario import Figures

LOG_SECONDS = 5.0


def emit_timed(owner: Any, event_type: str = EVENT_TYPE, data: Any = DATA) -> tuple[str, float]:
    """Emit one event in a transaction of its own; return its id and the Unix time of the commit."""
    committed_at: list[float] = []
    with transaction.atomic():
        transaction.on_commit(lambda: committed_at.append(time.time()))  # before the callbacks of emit
        event = emit(event_type, data, owner=owner)
    return event.id, committed_at[0]


def emit_steadily(owners: Sequence[Any], *, count: int, per_second: float, progress: Progress) -> dict[str, float]:
    """Emit ``count`` events for the owners in turn, at irregular intervals; return the time of each commit by event."""
    commits = {}
    next_at = time.monotonic()
    for index in range(count):
        next_at += random.uniform(0.5, 1.5) / per_second
        time.sleep(max(0.0, next_at - time.monotonic()))
        event_id, committed_at = emit_timed(owners[index % len(owners)])
        commits[event_id] = committed_at
        progress.done(index + 1)
    return commits


class Steps(NamedTuple):
    """The steps of a delivery in ms: from the commit to the start of its attempt, and from there to the first byte."""

    claim: float
    send: float

    @property
    def both(self) -> float:
        return self.claim + self.send


def steps(receiver: Receiver, commits: Mapping[str, float], *, subscribers: int = 1) -> list[Steps]:
    """Return the steps of each delivery. Raise RuntimeError unless each event arrived once at each subscriber.

    The deliveries of an event to webhooks with the same secret have the same signature in the same second.
    """
    attempts = {
        signature: (event, started_at.timestamp())
        for signature, event, started_at in DeliveryAttempt.objects.filter(delivery__event__in=commits).values_list(
            "signatures", "delivery__event_id", "started_at"
        )
    }
    expected = len(commits) * subscribers
    found = []
    for request in _arrivals(receiver, attempts, expected):
        event, started_at = attempts[request.signature]
        found.append(Steps(1000 * (started_at - commits[event]), 1000 * (request.at - started_at)))
    if len(found) != expected or len({event for event, _ in attempts.values()}) != len(commits):
        raise RuntimeError(f"{len(commits)} events, {len(attempts)} signatures, {len(found)} requests.")
    return found


def to_first_byte_ms(receiver: Receiver, commits: Mapping[str, float], *, subscribers: int = 1) -> list[float]:
    """Return the delay of each delivery; see ``steps``."""
    return [each.both for each in steps(receiver, commits, subscribers=subscribers)]


def slowest(prefix: str, found: Sequence[Steps]) -> Figures:
    """Return the mean steps of the slowest 1 %, and the medians of all."""
    tail = sorted(found, key=lambda each: each.both)[-max(1, len(found) // 100) :]
    return {
        f"{prefix}claim_p50_ms": statistics.median(each.claim for each in found),
        f"{prefix}send_p50_ms": statistics.median(each.send for each in found),
        f"{prefix}slowest_claim_ms": statistics.fmean(each.claim for each in tail),
        f"{prefix}slowest_send_ms": statistics.fmean(each.send for each in tail),
    }


def _arrivals(receiver: Receiver, signatures: Collection[str], expected: int) -> list[LoggedRequest]:
    """Return the requests with these signatures. nginx logs a request a moment after its answer."""
    deadline = time.monotonic() + LOG_SECONDS
    while True:
        found = [request for request in receiver.requests() if request.signature in signatures]
        if len(found) >= expected or time.monotonic() > deadline:
            return found
        time.sleep(0.05)


def percentiles(prefix: str, delays_ms: Sequence[float]) -> Figures:
    """Return the 50th, 95th and 99th percentiles as figures."""
    cuts = statistics.quantiles(delays_ms, n=100, method="inclusive")
    return {f"{prefix}p50_ms": cuts[49], f"{prefix}p95_ms": cuts[94], f"{prefix}p99_ms": cuts[98]}
