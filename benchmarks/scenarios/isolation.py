"""The delay of healthy webhooks beside webhooks whose requests never end."""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from django.db import connection, transaction

from tests.support.hanging_names import TRANSPORTS
from tests.support.servers.stalling_proxy import running_proxy
from webhooks_app import emit, registry
from webhooks_app.models import QueueEntry, Webhook

from .. import receivers, rows, simulation, workers
from ..delays import emit_steadily, percentiles, to_first_byte_ms
from ..progress import Progress
from ..scenario import BaseScenario, Figures, Variant, at_most
from ..simulation import Neighbours

PER_SECOND = 20
"""Rate of events to the two healthy webhooks: one of the first slow owner, and one of an owner without slow ones."""

SLOW_TYPE = "ppt.generation.started"
DNS = "dns /hang"
HANGING_NAMES = "200 host names whose DNS hangs"
PROXY = "a proxy stalls for 20"
MIXED = "2 owners, 100 mixed each"
MANY_TURN = "100 owners, 5 turn each, 10 events at once"
HANG, DRIP_200, DRIP_500, TLS = "http /hang", "http /drip-200", "http /drip-500", "https /hang"
TURN = "http /turn"

TURNS_AFTER_SECONDS = 5.0
"""How long turning webhooks are fast."""

WINDOWS = (200, 2000, 5000)
"""The simulated windows."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """The slow webhooks of a variant, all new, except those that turn."""

    webhooks: int
    """Of each owner."""
    kinds: Sequence[str] = (HANG,)
    owners: int = 1
    per_second: float = 10
    at_once: int = 0
    """Events to each webhook in one transaction, instead of a rate, or in addition when they turn."""
    is_proxied: bool = False
    """Requests use a proxy that does not answer for the slow webhooks."""


TROUBLES = {
    "60 hang": Trouble(60),
    "45 hang, 50 events at once": Trouble(45, at_once=50),
    "60 turn, 50 events at once": Trouble(60, (TURN,), per_second=2, at_once=50),
    MANY_TURN: Trouble(5, (TURN,), owners=100, per_second=0.5, at_once=10),
    "4 hang": Trouble(4),
    "20 hang": Trouble(20),
    "4 drip a 200": Trouble(4, (DRIP_200,)),
    "4 drip a 500": Trouble(4, (DRIP_500,)),
    "4 stall TLS": Trouble(4, (TLS,)),
    MIXED: Trouble(100, (HANG, DRIP_200, DRIP_500, TLS), owners=2, per_second=1),
    PROXY: Trouble(20, is_proxied=True),
    HANGING_NAMES: Trouble(100, (DNS,), owners=2, per_second=1),
}
MANY_OF_AN_OWNER = {
    name for name, trouble in TROUBLES.items() if set(trouble.kinds) <= {HANG, TURN} and trouble.webhooks > 20
}


def _target(trouble: str, transport: str) -> float:
    return 150 if transport == "native" and trouble in MANY_OF_AN_OWNER else 250


def _variant(trouble: str, transport: str, database: str = "postgresql") -> Variant:
    name = {"postgresql": "PostgreSQL", "sqlite": "SQLite"}[database]
    broker = "folder" if database == "sqlite" else "redis"
    return Variant(
        label=f"{name}, {transport}: {trouble}",
        database=database,
        broker=broker,
        transport=transport,
        settings={"WEBHOOKS_TRANSPORT": TRANSPORTS[transport]} if trouble == HANGING_NAMES else {},
        targets={"p95_ms": at_most(_target(trouble, transport))},
    )


SIMULATED = {
    f"simulated: {neighbours}": neighbours
    for neighbours in (
        Neighbours(kind=kind, owners=owners, at_once=at_once)
        for kind in ("new", "proven", "turning")
        for owners in simulation.WEBHOOKS
        for at_once in (0, 50)
    )
}


class Isolation(BaseScenario):
    name = "isolation"
    summary = "healthy webhooks beside others whose requests never end, of the same owner and of another"
    variants = (
        *(_variant(trouble, "native") for trouble in TROUBLES),
        *(_variant(trouble, "requests") for trouble in ("60 hang", MIXED, PROXY, HANGING_NAMES)),
        *(_variant(trouble, "native", "sqlite") for trouble in ("60 hang", MANY_TURN, MIXED)),
    )
    runs = 1
    options: ClassVar = {
        "healthy_events": (300, f"events to the healthy webhooks, {PER_SECOND} per second"),
        "simulate": (False, "simulate the sharing of slots instead, with more neighbours and windows"),
        "simulated_seconds": (45.0, "time beside the neighbours"),
    }
    quick: ClassVar = {"healthy_events": 60, "simulated_seconds": 10.0}

    def recorded_as(self, arguments: argparse.Namespace) -> str:
        return f"{self.name} --simulate" if arguments.simulate else self.name

    def chosen_variants(self, arguments: argparse.Namespace) -> list[Variant]:
        if not arguments.simulate:
            return super().chosen_variants(arguments)
        return [variant for variant in _simulated_variants() if arguments.variant in variant.label]

    def measure(self, arguments: argparse.Namespace, variant: Variant, progress: Progress) -> Figures:
        if neighbours := SIMULATED.get(variant.label):
            progress.step("simulating")
            windows = [simulation.simulate(neighbours, window, arguments.simulated_seconds) for window in WINDOWS]
            return {name: figure for figures in windows for name, figure in figures.items()}
        count = arguments.healthy_events
        trouble = TROUBLES[variant.label.rpartition(": ")[2]]
        with (
            receivers.troubled() as port,
            receivers.nginx() as healthy,
            _environment(trouble, port) as env,
            # At the end, do not wait for hanging requests.
            workers.celery_worker(variant.workers, env=env, patience_seconds=0) as worker,
        ):
            url = healthy.url
            if variant.settings:
                url = url.replace("127.0.0.1", "healthy.example.com")
            owners = rows.make_webhooks([f"{url}/{name}" for name in ("same", "other")], subscribers=1)
            watched = Webhook.objects.filter(pk__in=list(Webhook.objects.values_list("pk", flat=True)))
            rows.warm_up(owners, [worker], healthy, progress, processes=variant.workers)
            more = [f"{url}/{number}" for number in range(2, trouble.owners)]
            with _emitting(trouble, [*owners, *rows.make_webhooks(more, subscribers=1)], port):
                progress.step("beside", count)
                commits = emit_steadily(owners, count=count, per_second=PER_SECOND, progress=progress)
                rows.wait_until_received(watched, progress, seconds=100)
                claims = QueueEntry.objects.claimed().exclude(webhook__in=watched).count()
            delays = to_first_byte_ms(healthy, commits)
        rows.clear()
        return {**percentiles("", delays), "max_ms": max(delays), "slow_in_flight": float(claims)}


def _simulated_variants() -> list[Variant]:
    targets = {
        f"window_2000_{group}": at_most(limit)
        for group, limit in (
            ("fast_p95_ms", 150),
            ("fast_sibling_p95_ms", 150),
            ("new_p95_ms", 1000),
            ("slow_times_alone", 1.5),
        )
    }
    return [Variant(label=label, database="sqlite", broker="none", targets=targets) for label in SIMULATED]


@contextmanager
def _environment(trouble: Trouble, port: int) -> Generator[dict[str, str]]:
    """Run the proxy of a variant that has one; yield the environment of its worker."""
    if not trouble.is_proxied:
        yield dict(os.environ)
        return
    with running_proxy(port) as url:
        settings = {**json.loads(os.environ["BENCHMARK_SETTINGS"]), "WEBHOOKS_EGRESS_PROXY": url}
        yield {**os.environ, "BENCHMARK_SETTINGS": json.dumps(settings)}


@contextmanager
def _emitting(trouble: Trouble, owners: Sequence[Any], port: int) -> Generator[None]:
    """Emit events to the slow webhooks during the block."""
    slow_owners = owners[: trouble.owners]
    rows.subscribe(((owner, url) for owner in slow_owners for url in _urls(trouble, port)), SLOW_TYPE)
    if TURN in trouble.kinds:
        _emit_until(threading.Event(), slow_owners, trouble.per_second, for_seconds=TURNS_AFTER_SECONDS)
    if trouble.at_once:
        with transaction.atomic():
            for _ in range(trouble.at_once):
                _emit_slow(slow_owners)
        if TURN not in trouble.kinds:
            yield
            return
    over = threading.Event()
    thread = threading.Thread(target=_emit_until, args=(over, slow_owners, trouble.per_second))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


_names = itertools.count()


def _urls(trouble: Trouble, port: int) -> Iterator[str]:
    turns_at = time.time() + TURNS_AFTER_SECONDS
    for number, kind in zip(range(trouble.webhooks), itertools.cycle(trouble.kinds)):
        scheme, path = kind.split()
        if kind == TURN:
            path = f"{path}-{turns_at:.0f}"
        if kind == DNS:
            yield f"http://hang{next(_names)}.d{number}.test:{port}{path}"
        else:
            yield f"{scheme}://127.0.0.1:{port}{path}/{number}"


def _emit_until(
    over: threading.Event, owners: Sequence[Any], per_second: float, *, for_seconds: float = math.inf
) -> None:
    next_at = time.monotonic()
    until = next_at + for_seconds
    while not over.is_set() and next_at < until:
        _emit_slow(owners)
        next_at += 1 / per_second
        over.wait(max(0.0, next_at - time.monotonic()))
    connection.close()


def _emit_slow(owners: Sequence[Any]) -> None:
    for owner in owners:
        emit(SLOW_TYPE, registry.get(SLOW_TYPE).example, owner=owner)
