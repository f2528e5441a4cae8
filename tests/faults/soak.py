"""Inject random faults for a given time, show the growing counts, and judge the evidence.

The exit code is 0 if nothing is broken, 1 if a guarantee is, and 3 if the run cannot be judged: a server does not
start, or deliveries are still in progress long after the last fault.
"""

from __future__ import annotations

import argparse
import os
import random
import secrets
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

import django
import pytest

from .invariants import Verdict, count, judge, not_judged
from .reporting import row_of, table
from .servers import BROKERS, DATABASES, BaseBroker, BaseDatabase

if TYPE_CHECKING:
    from .lab import Lab

SPARE_SECONDS = 200
"""Time for the last deliveries after the last fault, added to the duration of the faults: receivers may be behind."""


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    seed = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    _say(f"{options.minutes:g} minutes on {options.database} with {options.broker}, --seed {seed}")
    try:
        verdict = _run(options, seed)
    except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 (of anything around the app)
        traceback.print_exc()
        verdict = not_judged(f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}")
    _say(verdict.sentence)
    return verdict.exit_code


def _run(options: argparse.Namespace, seed: int) -> Verdict:
    with ExitStack() as stack:
        database: BaseDatabase = stack.enter_context(closing(DATABASES[options.database]()))
        broker: BaseBroker = stack.enter_context(closing(BROKERS[options.broker]()))
        os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
        os.environ["TEST_DATABASE_URL"] = database.new()
        django.setup()
        from .lab import Lab, migrate

        migrate(database)
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="soak-")))
        lab = stack.enter_context(Lab(database, broker, directory))
        return _soak(lab, options.minutes * 60, seed, with_choices=options.choices)


def _soak(lab: Lab, seconds: float, seed: int, *, with_choices: bool) -> Verdict:
    from .choices import KEYS
    from .schedule import EVENTS_PER_SECOND, add_webhooks, inject_for

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
    _wait_until_over(lab, seconds + SPARE_SECONDS)
    evidence = lab.evidence()
    counts = count(evidence)
    _say(*table([row_of(f"soak, --seed {seed}", counts)]), *counts.details)
    verdict = judge(evidence)
    if verdict.exit_code:
        _say(lab.explain())
    return verdict


def _wait_until_over(lab: Lab, seconds: float) -> None:
    from .lab import asked

    deadline = time.monotonic() + seconds
    while not asked(lab.is_over) and time.monotonic() < deadline:
        time.sleep(0.5)


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
