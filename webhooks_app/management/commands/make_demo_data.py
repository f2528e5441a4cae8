"""``manage.py make_demo_data``"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from django.conf import settings as django_settings
from django.core.management.base import CommandError, CommandParser
from django.db import router
from django.utils import timezone

from ...models import Delivery
from ...plurals import counted
from ..base import WebhooksCommand
from ..demo_data import make_plan, make_rows
from ..demo_deletion import DemoDeletion
from ..progress import ProgressBar

CHUNK, CHUNK_OF_BIG = 5_000, 50_000


class Command(WebhooksCommand):
    help = (
        "Make accounts, webhooks in every state, and weeks of deliveries with retries and failures, to look at and to "
        "measure with. No such receiver exists, and nothing is sent: all is final, but for what is to be due."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--deliveries", type=int, default=10_000, metavar="N", help="Default: %(default)s.")
        parser.add_argument(
            "--due", type=int, default=0, metavar="N", help="So many more that are due now. Default: %(default)s."
        )
        parser.add_argument("--owners", type=int, default=6, metavar="N", help="Default: %(default)s.")
        parser.add_argument("--webhooks", type=int, default=24, metavar="N", help="Default: %(default)s.")
        parser.add_argument(
            "--days",
            type=float,
            default=14,
            metavar="N",
            help="Spread over so many days up to now. Default: %(default)s.",
        )
        parser.add_argument(
            "--seed", type=int, default=1, metavar="N", help="Another number makes others. Default: %(default)s."
        )
        parser.add_argument(
            "--delete", action="store_true", help="Delete what this command made instead, and what was sent of it."
        )
        parser.add_argument("--force", action="store_true", help="Do it although DEBUG is off.")

    def handle(self, *args: Any, **options: Any) -> None:
        if not django_settings.DEBUG and not options["force"]:
            raise CommandError("DEBUG is off, so that this may be a service in use. Give --force if it is to be done.")
        began = time.monotonic()
        try:
            done = self._delete() if options["delete"] else self._make(options)
        except KeyboardInterrupt:
            raise CommandError("Stopped. What was done so far stays done.", returncode=130) from None
        self.result(f"{done} in {time.monotonic() - began:,.1f} s.")

    def _make(self, options: dict[str, Any]) -> str:
        for name in ("deliveries", "owners", "webhooks", "days"):
            if not options[name] > 0:
                raise CommandError(f"--{name} is {options[name]}; give a positive number.")
        if options["due"] < 0:
            raise CommandError(f"--due is {options['due']}; give 0 or a positive number.")
        numbers = {name: options[name] for name in ("deliveries", "due", "owners", "webhooks", "days", "seed")}
        total = options["deliveries"] + options["due"]
        with self._bar(total) as bar:
            # Retries of the last event are over by now.
            plan = make_plan(**numbers, now=timezone.now() - timedelta(minutes=5))
            make_rows(plan, chunk=CHUNK if total < CHUNK_OF_BIG * 10 else CHUNK_OF_BIG, progress=bar.advance)
        due = f", {options['due']:,} of them due," if options["due"] else ""
        webhooks = counted(options["webhooks"], "webhook")
        return f"Made {webhooks} and {counted(total, 'delivery', 'deliveries')}{due}"

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
