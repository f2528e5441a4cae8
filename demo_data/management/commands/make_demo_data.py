"""``manage.py make_demo_data``"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from django.conf import settings as django_settings
from django.core.management.base import CommandError, CommandParser
from django.db import router
from django.utils import timezone

from webhooks_app.management.base import ProgressBar, WebhooksCommand
from webhooks_app.models import Delivery
from webhooks_app.plurals import counted

from ...deletion import DemoDeletion
from ...writing import Size, make_demo_data

ENDED_AGO = timedelta(minutes=5)
"""Age of the last event, so that its retries are over."""


class Command(WebhooksCommand):
    help = (
        "Create accounts, webhooks in every state, and weeks of deliveries with retries and failures, for development "
        "and measurements. The receivers do not exist. Nothing is sent, except the deliveries of --due."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        for name, default in asdict(Size()).items():
            parser.add_argument(f"--{name}", type=type(default), default=default, metavar="N", help=HELP[name])
        parser.add_argument("--delete", action="store_true", help="Delete the demo data instead.")
        parser.add_argument("--force", action="store_true", help="Run although DEBUG is off.")

    def handle(self, *args: Any, **options: Any) -> None:
        if not django_settings.DEBUG and not options["force"]:
            raise CommandError("DEBUG is off, so this may be a production system. Add --force to run anyway.")
        began = time.monotonic()
        try:
            done = self._delete() if options["delete"] else self._make(_size(options))
        except KeyboardInterrupt:
            raise CommandError("Stopped. Finished batches remain.", returncode=130) from None
        self.result(f"{done} in {time.monotonic() - began:,.1f} s.")

    def _make(self, size: Size) -> str:
        total = size.deliveries + size.due
        with self._bar(total) as bar:
            make_demo_data(size, until=timezone.now() - ENDED_AGO, progress=bar.advance)
        due = f", {size.due:,} of them due," if size.due else ""
        return f"Created {counted(size.webhooks, 'webhook')} and {counted(total, 'delivery', 'deliveries')}{due}"

    def _delete(self) -> str:
        deletion = DemoDeletion(router.db_for_write(Delivery))
        count = deletion.count()
        with self._bar(count) as bar:
            deletion.run(bar.advance)
        return f"Deleted the demo's accounts, webhooks and {counted(count, 'delivery', 'deliveries')}"

    @contextmanager
    def _bar(self, total: int) -> Iterator[ProgressBar]:
        bar = ProgressBar(self.stderr, total=total, unit="deliveries")
        try:
            yield bar
        finally:
            bar.end()


HELP = {
    "deliveries": "Number of final deliveries. Default: %(default)s.",
    "due": "Number of additional pending deliveries. Default: %(default)s.",
    "owners": "Number of accounts. Default: %(default)s.",
    "webhooks": "Number of webhooks. Default: %(default)s.",
    "days": "Number of past days with deliveries. Default: %(default)s.",
    "seed": "Seed of the random numbers. Default: %(default)s.",
}


def _size(options: dict[str, Any]) -> Size:
    size = Size(**{name: options[name] for name in HELP})
    for name in ("deliveries", "owners", "webhooks", "days"):
        if not options[name] > 0:
            raise CommandError(f"--{name} is {options[name]}, but must be positive.")
    if size.due < 0:
        raise CommandError(f"--due is {size.due}, but must be 0 or positive.")
    return size
