"""``manage.py replay_webhooks``"""

from __future__ import annotations

import math
import re
import threading
import time
from argparse import ArgumentTypeError
from datetime import datetime, timedelta
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import router
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime

from ...database.clock import DatabaseClock
from ...models import Replay
from ...operations import replays
from ...plurals import counted
from ...replays.runner import SHORTLY, advance, count
from ..base import ProgressBar, WebhooksCommand, get_webhook, stopped_by_signal

UNITS = {"min": "minutes", "h": "hours", "d": "days"}

SHOW_EVERY_SECONDS = 0.5

STANDSTILL_SECONDS = 15.0

STANDSTILL = (
    "The queued deliveries make no progress. Check that a worker runs (`webhooks_doctor`), that the receiver answers, "
    "and that the webhook is neither paused nor unverified."
)


def parse_time(text: str) -> datetime:
    """Return the time of a text: ISO 8601 (by default in the project's time zone), a day, or a span before now.

    Raise argparse.ArgumentTypeError.
    """
    try:
        if ago := re.fullmatch(r"([0-9]{1,6})(min|h|d)(?: ago)?", text, re.ASCII):
            return timezone.now() - timedelta(**{UNITS[ago[2]]: int(ago[1])})
        moment = parse_datetime(text)
        if moment is None and (day := parse_date(text)) is not None:
            moment = datetime.combine(day, datetime.min.time())
        if moment is not None:
            return timezone.make_aware(moment) if timezone.is_naive(moment) else moment
    except (ValueError, OverflowError) as error:
        raise ArgumentTypeError(f"{text!r} is not a valid time: {error}") from None
    raise ArgumentTypeError(
        f"{text!r} is not a valid time. Use the form 2026-01-31T12:00, 2026-01-31, 90min, 36h or 7d."
    )


class Command(WebhooksCommand):
    help = (
        "Send the events that a webhook missed: events never queued while it was disabled, and given-up or cancelled "
        "deliveries. Counts them, shows a sample and asks for confirmation. With a replay (rpl_…), continues that "
        "replay. Prints the replay and its progress."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "target", metavar="WEBHOOK|REPLAY", help="A webhook (wh_…) or a replay to continue (rpl_…)."
        )
        parser.add_argument(
            "--since",
            type=parse_time,
            metavar="TIME",
            help="Events since this time: 2026-01-31T12:00, 2026-01-31, or 36h for 36 hours ago. "
            "Default: the start of its first failing period of the last week, or a week ago.",
        )
        parser.add_argument("--until", type=parse_time, metavar="TIME", help="Events before this time. Default: now.")
        parser.add_argument(
            "--type",
            action="append",
            default=[],
            metavar="TYPE",
            help="Only this event type. May be repeated. Default: all.",
        )
        parser.add_argument(
            "--state",
            action="append",
            choices=Replay.Outcome.values,
            help="Only events with this outcome. May be repeated. Default: all but succeeded.",
        )
        parser.add_argument(
            "--rate", type=float, metavar="N", help="At most N per second. Default: WEBHOOKS_REPLAY_RATE."
        )
        parser.add_argument("--dry-run", action="store_true", help="Count and show the events, but send nothing.")
        parser.add_argument("--yes", action="store_true", help="Skip the confirmation.")
        parser.add_argument("--detach", action="store_true", help="Start the replay and exit; the workers finish it.")

    def handle(self, *args: Any, **options: Any) -> None:
        self.using = router.db_for_write(Replay)
        self.clock = DatabaseClock(self.using)
        replay = self._replay(options)
        try:
            self._count(replay)
            if self._shall_run(replay, options):
                go = replays.start if replay.state == Replay.State.READY else replays.resume
                go(replay, actor=self.actor)
                if not options["detach"]:
                    self._run(replay)
        except KeyboardInterrupt:
            raise CommandError(f"Stopped. {_how_to_continue(replay)}", returncode=130) from None
        self.result(f"{replay.pk} {replay.state}: {replay.queued} of {replay.matched} queued")
        if replay.state == Replay.State.STOPPED:
            raise CommandError(f"{replay.state_reason} {_how_to_continue(replay)}")

    def _replay(self, options: dict[str, Any]) -> Replay:
        target = options["target"]
        if not target.startswith("rpl_"):
            return replays.plan(
                get_webhook(target),
                actor=self.actor,
                since=options["since"],
                until=options["until"],
                event_types=options["type"],
                states=options["state"],
                rate=options["rate"],
                max_seconds=0,
            )
        replay = Replay.objects.select_related("webhook").filter(pk=target).first()
        if replay is None:
            raise CommandError(f"Unknown replay {target!r}.")
        if given := [name for name in ("since", "until", "type", "state", "rate") if options[name]]:
            raise CommandError(f"The selection of {target} is fixed. Remove --{given[0]}, or start a new replay.")
        return replay

    def _count(self, replay: Replay) -> None:
        shows = self.stderr.isatty()
        while not count(self.using, replay, self.clock, max_seconds=SHOW_EVERY_SECONDS):
            if shows:
                self.stderr.write(f"\r{counted(replay.examined, 'event')} examined …", str, ending="")
                self.stderr.flush()
        if shows:
            self.stderr.write("\r", str, ending="")

    def _shall_run(self, replay: Replay, options: dict[str, Any]) -> bool:
        """Show the events and return True if the user confirms."""
        events = counted(replay.matched, "event")
        self.note(f"{events} to {replay.webhook.url}, from {replay.since} to {replay.until}:")
        for period in replay.failing:
            given_up = counted(period["given_up"], "delivery", "deliveries")
            self.note(f"  failing from {period['since']} to {period['until'] or 'now'}, {given_up} given up")
        for each in replay.sample:
            self.note(f"  {each['event_id']}  {each['created']}  {each['type']}  {each['state']}")
        if replay.matched > len(replay.sample):
            self.note(f"  … and {replay.matched - len(replay.sample):,} more")
        if options["dry_run"] or not replay.matched:
            return False
        if self.is_confirmed("Send them?", yes=options["yes"]):
            return True
        self.note(f"Nothing was sent. {_how_to_continue(replay)}")
        return False

    def _run(self, replay: Replay) -> None:
        """Queue deliveries as the workers do, until the replay ends or the command is interrupted."""
        asked_to_stop = threading.Event()
        bar = ProgressBar(self.stderr, total=replay.matched, unit="events")
        bar.advance(replay.queued)
        moved_at = time.monotonic()
        try:
            with stopped_by_signal(asked_to_stop.set):
                while replay.state == Replay.State.RUNNING and not asked_to_stop.is_set():
                    moved, pause_seconds = self._step(replay)
                    bar.advance(moved)
                    if moved:
                        moved_at = time.monotonic()
                    elif time.monotonic() - moved_at > STANDSTILL_SECONDS:
                        self.note(STANDSTILL, role="WARNING")
                        moved_at = math.inf
                    asked_to_stop.wait(pause_seconds)
        finally:
            bar.end()
        if replay.state == Replay.State.RUNNING:
            replays.pause(replay, actor=self.actor)
            raise CommandError(f"Paused. {_how_to_continue(replay)}", returncode=130)
        self._report_pending(replay)

    def _step(self, replay: Replay) -> tuple[int, float]:
        """Return the number of events queued since the last step, and the seconds until the next step."""
        pause_seconds = advance(self.using, replay.pk, self.clock())
        before = replay.queued
        replay.refresh_from_db()
        return replay.queued - before, SHORTLY if pause_seconds is None else pause_seconds

    def _report_pending(self, replay: Replay) -> None:
        if waiting := replay.deliveries.pending().count():
            self.note(f"{counted(waiting, 'delivery is', 'deliveries are')} still pending. The workers send them.")


def _how_to_continue(replay: Replay) -> str:
    return f"To continue: manage.py replay_webhooks {replay.pk}"
