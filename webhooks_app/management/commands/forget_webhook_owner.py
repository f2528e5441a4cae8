"""``manage.py forget_webhook_owner``"""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import router

from ...maintenance.forgetting import Forgetting
from ...models import Webhook
from ...operations.lifecycle import forget_owner
from ...owners import owners
from ...plurals import counted
from ..base import OWNER_HELP, ProgressBar, WebhooksCommand, get_owner


class Command(WebhooksCommand):
    help = (
        "Delete the webhooks, API keys and events of an owner, with their deliveries, in short transactions. Keeps the "
        "owner itself. Run this before you delete an owner with a long history, which would otherwise need one long "
        "transaction."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("owner", help=OWNER_HELP)
        parser.add_argument("--dry-run", action="store_true", help="Only count the events and deliveries.")
        parser.add_argument("--yes", action="store_true", help="Skip the confirmation.")

    def handle(self, *args: Any, **options: Any) -> None:
        owner = get_owner(options["owner"])
        total = Forgetting(router.db_for_write(Webhook), owner.pk).count()
        found = f"{counted(total, 'event or delivery', 'events and deliveries')} of {owners().label(owner)}"
        if options["dry_run"]:
            self.result(f"Would delete {found}.")
            return
        question = f"Delete the webhooks, API keys, {found}?"
        if not self.is_confirmed(question, yes=options["yes"]):
            self.note("Nothing was deleted.")
            return
        bar = ProgressBar(self.stderr, total=total, unit="events and deliveries")
        try:
            forgotten = forget_owner(owner, actor=self.actor, progress=bar.advance)
        except KeyboardInterrupt:
            raise CommandError(
                "Stopped. The webhooks no longer send anything. Run the command again to finish.", returncode=130
            ) from None
        finally:
            bar.end()
        self.result(f"Deleted {forgotten}.")
