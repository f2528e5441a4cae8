"""Faults in the code of deliveries that the simulation must find alone, without any other test.

``python -m tests.simulation.sabotages [--histories 1500] [name…]`` applies each one to a copy of the tree, and runs
histories of new seeds there until one is broken. It exits with 1 if fewer than 28 of 30 are found.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.mutations.__main__ import _copied
from tests.mutations.catalogue import Mutation

REQUIRED_SHARE = 28 / 30


# Each has a name, a file, text that occurs once in it, and its replacement.
TABLE = (
    # Schedule
    ("retries-are-not-expected", "delivery/schedule.py", "self.expecting(now, retries) if retries", "self if retries"),
    ("wake-ups-are-ignored", "delivery/schedule.py", "(is_asked_for=True, linger_until=", "(linger_until="),
    ("notifications-are-ignored", "delivery/schedule.py", "(names={**names, **self.names})", "(names=self.names)"),
    ("no-sweep", "delivery/schedule.py", "else now.monotonic + schedule.sweep_seconds", "else now.monotonic + 1e9"),
    ("rate-limits-are-not-awaited", "delivery/schedule.py", "[*paced.values(), *found.moments]", "[*found.moments]"),
    (
        "failed-looks-are-forgotten",
        "delivery/schedule.py",
        " for after in ASK_AGAIN_AFTER_SECONDS]",
        " for after in ()]",
    ),
    (
        "cancelled-claims-stay-counted",
        "delivery/queue.py",
        "found.has_cancelled or len(kept) < len(claimed.claims)",
        "False",
    ),
    # Slots
    ("slots-are-not-given-back", "delivery/slots.py", "self._hold(webhook, -number)", "self._hold(webhook, 0)"),
    ("free-slots-are-not-counted", "delivery/slots.py", "        totals.free -= number\n", ""),
    ("one-owner-takes-all", "delivery/slots.py", "self._totals.further_free + (owner.held or 1)", "self._window"),
    ("unknown-webhooks-get-many", "delivery/slots.py", "if is_unknown or wanted == 1:", "if wanted == 1:"),
    ("new-owners-count-twice", "delivery/slots.py", "further_free -= number - new_owners", "further_free -= number"),
    ("own-claims-do-not-count", "delivery/slots.py", "(webhook_id, webhook.held,", "(webhook_id, 0,"),
    ("late-requests-stay-late", "delivery/slots.py", "webhook.late -= 1", "pass"),
    (
        "unknown-webhooks-get-further-ones",
        "delivery/slots.py",
        "        if own and is_unknown:\n            return 0\n",
        "",
    ),
    ("the-last-slot-is-for-anyone", "delivery/slots.py", "min(left_first, free - 1) if", "min(left_first, free) if"),
    # Claims
    ("limits-are-ignored", "delivery/claim.py", "min(ask.room, self.most(ask) - in_flight, ", "min(ask.room, "),
    ("rates-are-ignored", "delivery/claim.py", "ask.room if self.limit is None else", "ask.room if True else"),
    ("paused-webhooks-claim", "delivery/claim.py", "(self.paused_at is None or self.is_changing_url):", "True:"),
    (
        "handshakes-to-the-old-url",
        "delivery/claim.py",
        "return replace(self, url=self.pending_url,",
        "return replace(self,",
    ),
    (
        "expired-deliveries-are-sent",
        "delivery/queue.py",
        "if claim.expires_at and claim.expires_at <= now and",
        "if False and",
    ),
    # Records
    ("nothing-follows-in-a-group", "delivery/recording.py", ".promote(following, now)", ".promote((), now)"),
    ("handshakes-change-nothing", "delivery/recording.py", "        webhook.activate()", "        pass"),
    (
        "any-status-is-a-success",
        "delivery/outcome.py",
        "    if status != 200 and (challenge or",
        "    if status >= 500 and (challenge or",
    ),
    (
        "batches-are-recorded-twice",
        "delivery/recording.py",
        "        self._batch = []\n        self._wake",
        "        self._wake",
    ),
    (
        "results-are-lost-in-outages",
        "delivery/recording.py",
        "        finished = self._batch\n",
        "        finished, self._batch = self._batch, []\n",
    ),
    (
        "stale-handshakes-of-other-urls-decide",
        "delivery/recording.py",
        "    if webhook.awaited_url != item.claim.lane.url:\n        return\n",
        "",
    ),
    ("failures-are-final-successes", "delivery/sending.py", "if outcome.result is Result.SUCCEEDED:", "if True:"),
    # Releases
    ("released-slots-are-kept", "delivery/worker.py", "self.slots.give_back(claims)", "pass"),
    (
        "late-commits-are-not-sought",
        "delivery/schedule.py",
        "unacknowledged=self.unacknowledged[1:])",
        "unacknowledged=())",
    ),
    ("old-claims-are-sent", "delivery/worker.py", "            if now < begin_by:", "            if True:"),
    (
        "unacknowledged-claims-are-kept",
        "delivery/queue.py",
        "for number in {number for _, number, _ in found}:",
        "for number in ():",
    ),
    ("open-claims-are-released", "delivery/queue.py", "if not self._slots.is_open(row[0], row[1])]", "]"),
    # Leases and dead workers
    (
        "leases-end-at-once",
        "delivery/queue.py",
        "self.worker, now, now + self._lease, now +",
        "self.worker, now, now, now +",
    ),
    (
        "lost-claims-are-not-sought",
        "delivery/queue.py",
        "now + LOST_AGAIN_AFTER if look.with_lost else None",
        "None",
    ),
    (
        "living-workers-are-dead",
        "delivery/liveness.py",
        "DEAD_AFTER_SECONDS_ALONE = 13.0",
        "DEAD_AFTER_SECONDS_ALONE = 1.0",
    ),
    ("dead-workers-send", "delivery/worker.py", "if not self._liveness.is_current_at(now):", "if False:"),
    ("outages-lose-claims", "delivery/liveness.py", "not self.is_open and self._clock.monotonic() >=", "0.0 <="),
    ("own-claims-are-lost", "delivery/worker.py", "if not self.slots.is_open(*claim.key)]", "]"),
    ("lost-claims-are-sought-again-after-hours", "delivery/queue.py", "timedelta(seconds=5)", "timedelta(hours=5)"),
    # Retries
    (
        "retry-after-is-ignored",
        "retry.py",
        "if retry_after is not None:\n            delay =",
        "if False:\n            delay =",
    ),
    ("retries-are-early", "retry.py", "        return failed_at + delay\n", "        return failed_at + delay / 2\n"),
    (
        "one-attempt-too-many",
        "delivery/outcome.py",
        "attempt_number < max_attempts:",
        "attempt_number <= max_attempts:",
    ),
    ("one-attempt-too-few", "retry.py", "if number >= self.max_attempts:", "if number >= self.max_attempts - 1:"),
    (
        "lost-attempts-succeed",
        "delivery/sending.py",
        "result=Result.WORKER_LOST, message",
        "result=Result.SUCCEEDED, message",
    ),
)

SABOTAGES = tuple(Mutation(*columns, "simulation") for columns in TABLE)


def seeds_to_find(sabotage: Mutation, *, histories: int) -> int | None:
    """Return the number of histories until one is broken, or None if all keep the invariants."""
    with tempfile.TemporaryDirectory(prefix="sabotage-") as directory:
        copy = _copied(Path(directory))
        file = copy / "webhooks_app" / sabotage.file
        text = file.read_text()
        if text.count(sabotage.old) != 1:
            raise ValueError(
                f"{sabotage.name}: its old text occurs {text.count(sabotage.old)} times in {sabotage.file}"
            )
        file.write_text(text.replace(sabotage.old, sabotage.new))
        options = ["--histories", str(histories), "--processes", "1", "--first", "--quiet"]
        run = subprocess.run(
            [sys.executable, "-m", "tests.simulation", *options],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"},
            check=False,
            capture_output=True,
            text=True,
            timeout=900,
        )
    if run.returncode not in (0, 1):
        raise RuntimeError(run.stdout[-2000:] + run.stderr[-2000:])
    print(f"    {run.stdout.strip()[:150]}", flush=True)
    return int(run.stdout.split()[0]) if run.returncode else None


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.sabotages", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help="default: all")
    parser.add_argument("--histories", type=int, default=1500, help="at most, for each (default: %(default)s)")
    options = parser.parse_args(arguments)
    chosen = [each for each in SABOTAGES if not options.names or each.name in options.names]
    missed = []
    for each in chosen:
        began_at = time.monotonic()
        number = seeds_to_find(each, histories=options.histories)
        verdict = "MISSED" if number is None else f"found in {number}"
        print(f"{verdict:<14} {each.name:<34} {time.monotonic() - began_at:4.0f} s", flush=True)
        missed += [each.name] if number is None else []
    print(f"{len(chosen) - len(missed)} of {len(chosen)} sabotages were found.", *missed, sep="\n  ")
    return int(len(chosen) - len(missed) < REQUIRED_SHARE * len(chosen))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
