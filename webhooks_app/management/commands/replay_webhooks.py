"""``manage.py replay_webhooks``"""

from __future__ import annotations

import math
import threading
import time
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import router

from ...database.clock import DatabaseClock
from ...models import Replay
from ...operations import replays
from ...plurals import counted
from ...replays.runner import SHORTLY, advance, count
from ..base import WebhooksCommand
from ..moments import parse_moment
from ..progress import ProgressBar
from ..stopping import stopped_by_signal
from ..webhooks import get_webhook

SHOW_EVERY_SECONDS = 0.5
STANDSTILL_SECONDS = 15.0

STANDSTILL = (
    "What is queued must be delivered first, and is not. Does a worker run (`webhooks_doctor` tells), does the "
    "receiver answer, is the webhook paused, or being verified?"
)


class Command(WebhooksCommand):
    help = (
        "Send again what a webhook missed: what was never queued while it was disabled, given up or cancelled. "
        "Counts first, shows some of it and asks. Given a replay (rpl_…), goes on with that one. "
        "Prints the replay and how far it came, alone on standard output."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("target", metavar="WEBHOOK|REPLAY", help="The webhook, wh_…, or a replay to go on with.")
        parser.add_argument(
            "--since",
            type=parse_moment,
            metavar="TIME",
            help="Events from then on: 2026-01-31T12:00, 2026-01-31, or 36h for as long ago. "
            "Default: since its first failing period of the last week, or a week ago.",
        )
        parser.add_argument("--until", type=parse_moment, metavar="TIME", help="Events before then. Default: now.")
        parser.add_argument(
            "--type", action="append", default=[], metavar="TYPE", help="Only of this event type; may be repeated."
        )
        parser.add_argument(
            "--state",
            action="append",
            choices=Replay.Outcome.values,
            help="Only events of which this became; may be repeated. Default: all but succeeded.",
        )
        parser.add_argument(
            "--rate", type=float, metavar="N", help="At most N a second. Default: WEBHOOKS_REPLAY_RATE."
        )
        parser.add_argument("--dry-run", action="store_true", help="Count and show, and send nothing.")
        parser.add_argument("--yes", action="store_true", help="Do not ask.")
        parser.add_argument("--detach", action="store_true", help="Leave it to the workers, once it is started.")

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
                    self._carry(replay)
        except KeyboardInterrupt:
            raise CommandError(f"Stopped. {_how_to_go_on(replay)}", returncode=130) from None
        self.result(f"{replay.pk} {replay.state}: {replay.queued} of {replay.matched} queued")
        if replay.state == Replay.State.STOPPED:
            raise CommandError(f"{replay.state_reason} {_how_to_go_on(replay)}")

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
            raise CommandError(f"There is no replay {target!r}.")
        if given := [name for name in ("since", "until", "type", "state", "rate") if options[name]]:
            raise CommandError(f"What {target} sends is decided; leave --{given[0]} out, or plan another.")
        return replay

    def _count(self, replay: Replay) -> None:
        shows = self.stderr.isatty()
        while not count(self.using, replay, self.clock, max_seconds=SHOW_EVERY_SECONDS):
            if shows:
                self.stderr.write(f"\r{counted(replay.examined, 'event')} looked at …", str, ending="")
                self.stderr.flush()
        if shows:
            self.stderr.write("\r", str, ending="")

    def _shall_run(self, replay: Replay, options: dict[str, Any]) -> bool:
        """Show what would be sent, and ask where somebody can be asked."""
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
        self.note(f"Nothing was sent. {_how_to_go_on(replay)}")
        return False

    def _carry(self, replay: Replay) -> None:
        """Carry the replay as workers do, beside them, until it is over or somebody stops it or this command."""
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
            raise CommandError(f"Paused. {_how_to_go_on(replay)}", returncode=130)
        self._say_what_waits(replay)

    def _step(self, replay: Replay) -> tuple[int, float]:
        """Return how many events were queued since the last step, and how long to wait for the next one."""
        pause_seconds = advance(self.using, replay.pk, self.clock())
        before = replay.queued
        replay.refresh_from_db()
        return replay.queued - before, SHORTLY if pause_seconds is None else pause_seconds

    def _say_what_waits(self, replay: Replay) -> None:
        if waiting := replay.deliveries.pending().count():
            waits = counted(waiting, "of them is", "of them are")
            self.note(f"{waits} still to be delivered; the workers do that.")


def _how_to_go_on(replay: Replay) -> str:
    return f"Go on with: manage.py replay_webhooks {replay.pk}"
