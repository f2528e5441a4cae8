"""``manage.py prune_webhooks``"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core.management.base import CommandError, CommandParser

from ...conf import MAX_DAYS, settings
from ...maintenance.retention import prune
from ...plurals import counted
from ..base import WebhooksCommand


class Command(WebhooksCommand):
    help = (
        "Delete attempts and event bodies, then events and deliveries, after their retention periods. Works in small "
        "batches that do not block workers, and never deletes pending deliveries."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="Count only.")
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
            "--max-seconds",
            type=float,
            metavar="S",
            help="Stop after S seconds, even if rows remain. Default: no limit.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        is_dry_run, max_seconds = options["dry_run"], options["max_seconds"]
        if max_seconds is not None and not max_seconds > 0:
            raise CommandError(f"--max-seconds is {max_seconds:g}, but must be positive.")
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
                "Stopped. Finished batches stay deleted. Run the command again to finish.", returncode=130
            ) from None
        self.result(f"{'Would delete' if is_dry_run else 'Deleted'} {pruned}.")
        if not pruned.is_complete:
            self.note("The time limit was reached before the end. Run the command again for the rest.", role="WARNING")

    def _progress(self) -> Any:
        """Return a callable that shows a running count on a terminal and nothing elsewhere."""
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
        raise CommandError(f"{option} is {days}, but must be 1 to {MAX_DAYS} days.")
    return timedelta(days=default if days is None else days)
