"""Inject random faults for a given time, and show the growing counts."""

from __future__ import annotations

import argparse
import os
import random
import secrets
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import django

from .reporting import row_of, table
from .servers import BROKERS, DATABASES

if TYPE_CHECKING:
    from .lab import Lab

EVENTS_PER_SECOND = 2


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    seed = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    _say(f"{options.minutes:g} minutes on {options.database} with {options.broker}, --seed {seed}")
    database, broker = DATABASES[options.database](), BROKERS[options.broker]()
    try:
        os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
        os.environ["TEST_DATABASE_URL"] = database.new()
        django.setup()
        from .lab import Lab, migrate

        migrate(database)
        with tempfile.TemporaryDirectory(prefix="soak-") as directory, Lab(database, broker, Path(directory)) as lab:
            return _soak(lab, options.minutes * 60, seed, with_choices=options.choices)
    finally:
        broker.close()
        database.close()


def _soak(lab: Lab, seconds: float, seed: int, *, with_choices: bool) -> int:
    from .choices import KEYS
    from .schedule import add_webhooks, inject_for

    add_webhooks(lab, with_choices=with_choices)
    host = lab.start_host()
    lab.start_beat()
    lab.start_workers(2)
    number, pause_seconds = int(seconds * EVENTS_PER_SECOND), 1 / EVENTS_PER_SECOND
    host.begin(number, ending="mixed", pause_seconds=pause_seconds, until_committed=True, keys=KEYS)
    started = time.monotonic()
    for number, name in enumerate(inject_for(seconds, lab, random.Random(seed)), 1):
        _show(lab, time.monotonic() - started, number, name)
    lab.take_report(host)
    _say("Waiting until everything is final …")
    counts = lab.settle()
    _say(*table([row_of(f"soak, --seed {seed}", counts)]), *counts.details)
    _say(f"broken: {counts.broken}" if counts.broken else "Nothing is broken.")
    return bool(counts.broken)


def _show(lab: Lab, seconds: float, number: int, name: str) -> None:
    from django.db import Error, connection

    try:
        states = ", ".join(f"{count} {state}" for state, count in sorted(lab.results().items()))
    except Error:
        connection.close()
        states = "the database does not answer"
    line = f"{seconds:5.0f} s  {number:4} faults  {lab.kills:3} kills  {len(lab.requests()):6} requests"
    _say(f"{line}  {states}  ← {name}")


def _say(*lines: str) -> None:
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--database", choices=DATABASES, default="postgresql")
    parser.add_argument("--broker", choices=BROKERS, default="redis")
    parser.add_argument("--choices", action="store_true", help="add webhooks that have made every choice at once")
    parser.add_argument("--seed", type=int, help="repeat the run that printed this seed")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
