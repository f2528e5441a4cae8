"""``manage.py prune_webhooks``"""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import Any

from django.core.management.base import CommandError, CommandParser

from ...conf import settings
from ...retention import Pruned, count_prunable, prune
from ..base import WebhooksCommand

MAX_DAYS = 36_500


class Command(WebhooksCommand):
    help = (
        "Delete attempts, events and deliveries that are older than they are kept, a few hundred at a time, "
        "so that nobody waits. What is still to be delivered stays."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="Only count what would be deleted.")
        parser.add_argument(
            "--attempts-days",
            type=int,
            metavar="N",
            help="Keep attempts for N days. Default: WEBHOOKS_ATTEMPT_RETENTION_DAYS.",
        )
        parser.add_argument(
            "--events-days",
            type=int,
            metavar="N",
            help="Keep events and their deliveries for N days. Default: WEBHOOKS_EVENT_RETENTION_DAYS.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        attempt_age = _age("--attempts-days", options["attempts_days"], settings.ATTEMPT_RETENTION_DAYS)
        event_age = _age("--events-days", options["events_days"], settings.EVENT_RETENTION_DAYS)
        if options["dry_run"]:
            self.result(f"Would delete {_counted(count_prunable(attempt_age=attempt_age, event_age=event_age))}.")
            return
        try:
            pruned = prune(attempt_age=attempt_age, event_age=event_age, progress=self._progress())
        except KeyboardInterrupt:
            raise CommandError(
                "Stopped. What was deleted so far stays deleted; run it again.", returncode=130
            ) from None
        self.result(f"Deleted {_counted(pruned)}.")

    def _progress(self) -> Any:
        """Return a callable that counts up in place on a terminal and stays silent elsewhere."""
        total = 0

        def show(deleted: int) -> None:
            nonlocal total
            total += deleted
            if self.stderr.isatty():
                self.stderr.write(f"\r{total:,} rows deleted …", str, ending="")
                self.stderr.flush()

        return show


def _age(option: str, days: int | None, default: int) -> timedelta:
    if days is not None and not 1 <= days <= MAX_DAYS:
        raise CommandError(f"{option} is {days}; give 1 to {MAX_DAYS} days.")
    return timedelta(days=default if days is None else days)


def _counted(pruned: Pruned) -> str:
    return ", ".join(f"{count:,} {kind}" for kind, count in asdict(pruned).items())
