"""``manage.py prune_webhooks``"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core.management.base import CommandError, CommandParser

from ...conf import settings
from ...maintenance.retention import prune
from ...plurals import counted
from ..base import WebhooksCommand

MAX_DAYS = 36_500


class Command(WebhooksCommand):
    help = (
        "Delete attempts and the bodies of events, then events and deliveries, that are older than they are kept, a "
        "few hundred at a time, so that nobody waits. What is still to be delivered stays."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="Only count what would be deleted.")
        parser.add_argument(
            "--attempts-days",
            type=int,
            metavar="N",
            help="Keep attempts and bodies for N days. Default: WEBHOOKS_ATTEMPT_RETENTION_DAYS.",
        )
        parser.add_argument(
            "--events-days",
            type=int,
            metavar="N",
            help="Keep events and their deliveries for N days. Default: WEBHOOKS_EVENT_RETENTION_DAYS.",
        )
        parser.add_argument(
            "--max-seconds", type=float, metavar="S", help="Stop after S seconds and say that there may be more."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        is_dry_run, max_seconds = options["dry_run"], options["max_seconds"]
        if max_seconds is not None and not max_seconds > 0:
            raise CommandError(f"--max-seconds is {max_seconds:g}; give a positive number.")
        try:
            pruned = prune(
                attempt_age=_age("--attempts-days", options["attempts_days"], settings.ATTEMPT_RETENTION_DAYS),
                event_age=_age("--events-days", options["events_days"], settings.EVENT_RETENTION_DAYS),
                max_seconds=max_seconds,
                is_dry_run=is_dry_run,
                progress=self._progress(),
            )
        except KeyboardInterrupt:
            raise CommandError(
                "Stopped. What was deleted so far stays deleted; run it again.", returncode=130
            ) from None
        self.result(f"{'Would delete' if is_dry_run else 'Deleted'} {pruned}.")
        if not pruned.is_complete:
            self.note("The time limit was reached before the end. Run the command again for the rest.", role="WARNING")

    def _progress(self) -> Any:
        """Return a callable that counts up in place on a terminal and stays silent elsewhere."""
        total = 0

        def show(rows: int) -> None:
            nonlocal total
            total += rows
            if self.stderr.isatty():
                self.stderr.write(f"\r{counted(total, 'row')} …", str, ending="")
                self.stderr.flush()

        return show


def _age(option: str, days: int | None, default: int) -> timedelta:
    if days is not None and not 1 <= days <= MAX_DAYS:
        raise CommandError(f"{option} is {days}; give 1 to {MAX_DAYS} days.")
    return timedelta(days=default if days is None else days)
