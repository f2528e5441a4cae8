"""The costs of emitting events, in the emitting process."""

from __future__ import annotations

import argparse
import time
from typing import ClassVar

from django.db import connection
from django.test.utils import CaptureQueriesContext

from webhooks_app.models import Delivery

from .. import rows
from ..progress import Progress
from ..scenario import BaseScenario, Figures, Target, Variant, at_least

NOWHERE = "http://127.0.0.1:9"


def _targets(one: float, ten: float, hundred: float) -> dict[str, Target]:
    return {f"events_per_s_{count}": at_least(limit) for count, limit in ((1, one), (10, ten), (100, hundred))}


class Emit(BaseScenario):
    name = "emit"
    summary = "events per second of one process, in a transaction each, with the wake-ups of a web process"
    variants = (
        Variant(label="PostgreSQL", targets=_targets(900, 800, 400)),
        Variant(label="SQLite", database="sqlite", targets=_targets(2500, 1500, 450)),
    )
    options: ClassVar = {"emits": (1000, "events for each number of subscribers")}
    quick: ClassVar = {"emits": 100}

    def measure(self, arguments: argparse.Namespace, variant: Variant, progress: Progress) -> Figures:
        figures = {}
        for subscribers in (1, 10, 100):
            (owner,) = rows.make_webhooks([NOWHERE] * subscribers, subscribers=subscribers)
            progress.step(f"{subscribers} subscribers", arguments.emits)
            with CaptureQueriesContext(connection) as queries:
                rows.emit_one(owner)
            figures[f"statements_{subscribers}"] = float(len(queries))
            started_at = time.perf_counter()
            for index in range(arguments.emits):
                rows.emit_one(owner)
                progress.done(index)
            figures[f"events_per_s_{subscribers}"] = arguments.emits / (time.perf_counter() - started_at)
            _check((arguments.emits + 1) * subscribers)
            rows.clear()
        return figures


def _check(expected: int) -> None:
    """Raise RuntimeError unless there is a pending delivery for each event and subscriber."""
    if (found := Delivery.objects.pending().count()) != expected:
        raise RuntimeError(f"{expected} deliveries were expected, but {found} are pending.")
