"""``manage.py make_demo_data``"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from django.conf import settings as django_settings
from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from ..base import WebhooksCommand
from ..demo_data import make_plan, make_rows
from ..progress import ProgressBar

CHUNK, CHUNK_OF_BIG = 5_000, 50_000


class Command(WebhooksCommand):
    help = (
        "Make accounts, webhooks in every state, and weeks of deliveries with retries and failures, to look at and to "
        "measure with. Nothing of it is sent: all is final, and no such receiver exists."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--deliveries", type=int, default=10_000, metavar="N", help="Default: %(default)s.")
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
        parser.add_argument("--force", action="store_true", help="Make them although DEBUG is off.")

    def handle(self, *args: Any, **options: Any) -> None:
        if not django_settings.DEBUG and not options["force"]:
            raise CommandError("DEBUG is off, so that this may be a service in use. --force makes demo data anyway.")
        for name in ("deliveries", "owners", "webhooks", "days"):
            if not options[name] > 0:
                raise CommandError(f"--{name} is {options[name]}; give a positive number.")
        count = options["deliveries"]
        bar = ProgressBar(self.stderr, total=count, unit="deliveries")
        began = time.monotonic()
        try:
            plan = make_plan(
                deliveries=count,
                owners=options["owners"],
                webhooks=options["webhooks"],
                days=options["days"],
                seed=options["seed"],
                # Retries of the last event are over by now.
                now=timezone.now() - timedelta(minutes=5),
            )
            make_rows(plan, chunk=CHUNK if count < CHUNK_OF_BIG * 10 else CHUNK_OF_BIG, progress=bar.advance)
        except KeyboardInterrupt:
            raise CommandError("Stopped. What was made so far is there.", returncode=130) from None
        finally:
            bar.end()
        seconds = time.monotonic() - began
        self.result(f"Made {options['webhooks']:,} webhooks and {count:,} deliveries in {seconds:,.1f} s.")
