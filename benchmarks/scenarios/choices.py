"""The cost of what a webhook can choose: signatures while delivering, filters while emitting."""

from __future__ import annotations

import argparse
import base64
import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

from webhooks_app.models import SigningKey, Webhook

from .. import backlog, rows
from ..burst import SUBSCRIBERS, WEBHOOKS
from ..progress import Progress
from ..scenario import BaseScenario, Figures, Variant, at_least, at_most
from .counts import counting_calls, deliver, no_wake_ups

SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()
FILTERED = 20
"""Webhooks of the owner whose events are filtered."""
DISTINCT = 1000
"""Webhooks of one owner with a different filter each."""
MATCHING = {"error": {"$startsWith": "x"}}

Action = Callable[[], Any]


class Choices(BaseScenario):
    name = "choices"
    summary = "the cost of two signatures, and of a filter on each of 20 webhooks, against webhooks without choices"
    variants = (
        Variant(
            label="PostgreSQL",
            broker="folder",
            targets={
                "ratio_to_native": at_least(0.9),
                "ratio_to_unfiltered": at_least(0.6),
                "emit_ms_1000_filters": at_most(50),
            },
        ),
    )
    runs = 1
    options: ClassVar = {
        "rounds": (15, "rounds, in which both sides alternate"),
        "round_events": (100, "events of a round for each side"),
    }
    quick: ClassVar = {"rounds": 2, "round_events": 20}

    def measure(self, arguments: argparse.Namespace, variant: Variant, progress: Progress) -> Figures:
        with no_wake_ups():
            figures = _signatures(arguments.rounds, arguments.round_events, progress)
            rows.clear()
            figures |= _filters(arguments.rounds, arguments.round_events, progress)
            rows.clear()
            figures |= _distinct_filters(arguments.rounds, progress)
            rows.clear()
        return figures


def _signatures(rounds: int, events: int, progress: Progress) -> Figures:
    """Deliver through an engine in this process and a transport that sends nothing."""
    owners = {name: _subscribed(WEBHOOKS // 2, SUBSCRIBERS) for name in ("native", "both")}
    Webhook.objects.filter(owner__in=owners["both"]).update(signatures=["native", "standard"])
    emits = {name: partial(_emit, found, events) for name, found in owners.items()}
    for emit in emits.values():
        emit()
        deliver()
    backlog.analyze()
    progress.step("delivering", rounds)
    seconds, calls = _alternated(emits, deliver, rounds, progress)
    deliveries = events * SUBSCRIBERS
    return {
        "ratio_to_native": seconds["native"] / seconds["both"],
        "deliveries_per_s_native": deliveries / seconds["native"],
        "deliveries_per_s_both": deliveries / seconds["both"],
        "deliver_calls_native": calls["native"] / deliveries,
        "deliver_calls_both": calls["both"] / deliveries,
    }


def _filters(rounds: int, events: int, progress: Progress) -> Figures:
    owners = {name: _subscribed(FILTERED, FILTERED) for name in ("plain", "filtered")}
    Webhook.objects.filter(owner__in=owners["filtered"]).update(filter=MATCHING)
    emits: Mapping[str, Action] = {name: partial(_emit, found, events) for name, found in owners.items()}
    for emit in emits.values():
        emit()
    backlog.analyze()
    progress.step("emitting", rounds)
    seconds, calls = _alternated(dict.fromkeys(emits, _nothing), emits, rounds, progress)
    return {
        "ratio_to_unfiltered": seconds["plain"] / seconds["filtered"],
        "emits_per_s_plain": events / seconds["plain"],
        "emits_per_s_filtered": events / seconds["filtered"],
        "emit_calls_plain": calls["plain"] / events,
        "emit_calls_filtered": calls["filtered"] / events,
    }


def _distinct_filters(rounds: int, progress: Progress) -> Figures:
    """Emit to an owner with many webhooks, each with another filter, of which every tenth matches."""
    (owner,) = _subscribed(DISTINCT, DISTINCT)
    webhooks = list(Webhook.objects.filter(owner=owner))
    for number, webhook in enumerate(webhooks):
        webhook.filter = {"error": {"$startsWith": "y" if number % 10 else "x", "$ne": f"error {number}"}}
    Webhook.objects.bulk_update(webhooks, ["filter"])
    rows.emit_one(owner)  # parses them
    backlog.analyze()
    progress.step("emitting to distinct filters", rounds)
    seconds: list[float] = []
    for number in range(rounds):
        started_at = time.perf_counter()
        rows.emit_one(owner)
        seconds.append(time.perf_counter() - started_at)
        progress.done(number)
    return {f"emit_ms_{DISTINCT}_filters": 1000 * statistics.median(seconds)}


def _alternated(
    prepare: Mapping[str, Action], act: Action | Mapping[str, Action], rounds: int, progress: Progress
) -> tuple[dict[str, float], dict[str, int]]:
    """Return the median time of an action on each side, and its calls of functions, which are counted apart."""
    actions = act if isinstance(act, Mapping) else dict.fromkeys(prepare, act)
    seconds: dict[str, list[float]] = {name: [] for name in prepare}
    for number in range(rounds):
        for name in list(prepare) if number % 2 else reversed(list(prepare)):
            prepare[name]()
            started_at = time.perf_counter()
            actions[name]()
            seconds[name].append(time.perf_counter() - started_at)
        progress.done(number)
    calls: dict[str, int] = {}
    for name in prepare:
        prepare[name]()
        counted = Counter[str]()
        with counting_calls(counted):
            actions[name]()
        calls[name] = counted["calls"]
    return {name: statistics.median(found) for name, found in seconds.items()}, calls


def _subscribed(number: int, subscribers: int) -> list[Any]:
    """Make webhooks whose secret fits both signatures; return their owners."""
    owners = rows.make_webhooks([f"http://127.0.0.1:9/{index}" for index in range(number)], subscribers=subscribers)
    token = SigningKey.of("native", SECRET).encrypted_key
    SigningKey.objects.filter(webhook__owner__in=owners).update(encrypted_key=token)
    return owners


def _emit(owners: list[Any], events: int) -> None:
    for index in range(events):
        rows.emit_one(owners[index % len(owners)])


def _nothing() -> None:
    """Prepare nothing."""
