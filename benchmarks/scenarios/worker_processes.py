"""The effect of more worker processes, and their bottlenecks."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from typing import ClassVar

from .. import burst, receivers, rows
from ..progress import Progress
from ..scenario import BaseScenario, Figures, Variant

TWO_COMMANDS = "two commands of 1 process"


class Workers(BaseScenario):
    name = "workers"
    summary = "the same burst with more processes, and with two celery commands on one database"
    variants = (
        Variant(label="1 process"),
        Variant(label="2 processes", workers=2),
        Variant(label="4 processes", workers=4),
        Variant(label=TWO_COMMANDS),
    )
    options: ClassVar = {"burst_events": (3000, "events of the burst, with 10 deliveries each")}
    quick: ClassVar = {"burst_events": 300}

    def measure(self, arguments: argparse.Namespace, variant: Variant, progress: Progress) -> Figures:
        processes = (1, 1) if variant.label == TWO_COMMANDS else (variant.workers,)
        with receivers.nginx() as receiver:
            found = burst.deliver(arguments.burst_events, receiver, progress, processes=processes)
        rows.clear()
        seconds = found.deliveries / found.per_second
        return {
            "deliveries_per_s": found.per_second,
            "worker_cores": found.cpu_seconds / seconds,
            "other_cores": max(0.0, found.busy_cores - found.cpu_seconds / seconds),
            "engines": float(found.engines),
            "share_of_machine": found.busy_cores / (os.cpu_count() or 1),
        }

    def compare(self, results: Mapping[str, Figures]) -> None:
        if one := results.get("1 process"):
            for figures in results.values():
                figures["times_one_process"] = figures["deliveries_per_s"] / one["deliveries_per_s"]
