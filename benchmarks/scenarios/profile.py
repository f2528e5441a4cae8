"""The parts of the sender's CPU time. The profiler runs in the process, so the figures are shares, not speeds."""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time
from collections import defaultdict
from typing import ClassVar

from django.db import transaction

from webhooks_app.delivery.engine import Engine

from .. import receivers, rows
from ..burst import SUBSCRIBERS, WEBHOOKS
from ..progress import Progress
from ..scenario import BaseScenario, Figures, Variant

PARTS = {
    "sockets": ("_socket.", "_ssl.", "/ssl.py"),
    "poll": ("select.",),
    "database": ("psycopg", "sqlite3", "pymysql"),
    "django": ("/django/",),
    "signing": ("/webhooks_app/signatures", "/webhooks_app/receiver/schemes", "_hashlib", "/hmac"),
    "transport": ("/webhooks_app/transport/",),
    "delivery": ("/webhooks_app/delivery/",),
    "json": ("/json/", "_json."),
}
"""Part → parts of the paths or names of its functions. The first match counts; the rest is ``python``."""


class Profile(BaseScenario):
    name = "profile"
    summary = "shares of the sender's CPU time in one burst, by Python's profiler, which exaggerates those in Python"
    variants = (
        Variant(label="PostgreSQL, native"),
        Variant(label="SQLite, native", database="sqlite"),
    )
    options: ClassVar = {"profiled_events": (1000, f"events, {SUBSCRIBERS} deliveries each")}
    quick: ClassVar = {"profiled_events": 50}

    def measure(self, arguments: argparse.Namespace, variant: Variant, progress: Progress) -> Figures:
        expected = arguments.profiled_events * SUBSCRIBERS
        with receivers.nginx() as receiver:
            owners = rows.make_webhooks(
                [f"{receiver.url}/{index}" for index in range(WEBHOOKS)], subscribers=SUBSCRIBERS
            )
            with transaction.atomic():
                for index in range(arguments.profiled_events):
                    rows.emit_one(owners[index % len(owners)])
            progress.step("delivering", expected)
            profiler = cProfile.Profile(time.thread_time)
            profiler.runcall(Engine().run_until_idle)
            rows.wait_until_delivered(receiver, expected, progress)
            rows.check(receiver, expected)
        rows.clear()
        return _shares(pstats.Stats(profiler))


def _shares(stats: pstats.Stats) -> Figures:
    """Return the share of each part in the functions' own time."""
    seconds: dict[str, float] = defaultdict(float)
    for (file, _, function), (_, _, own, _, _) in stats.stats.items():  # type: ignore[attr-defined]
        seconds[_part(f"{file} {function}")] += own
    total = sum(seconds.values())
    return {f"share_{part}": own / total for part, own in sorted(seconds.items(), key=lambda item: -item[1])}


def _part(function: str) -> str:
    return next((part for part, texts in PARTS.items() if any(text in function for text in texts)), "python")
