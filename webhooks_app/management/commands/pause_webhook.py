"""``manage.py pause_webhook``"""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from ...models import QueueEntry
from ...pages.actions import WEBHOOK
from ..base import WebhooksCommand, get_webhook


class Command(WebhooksCommand):
    help = (
        "Pause a webhook. Requests in flight finish; events queue up until you resume. "
        "Prints the number of its waiting deliveries."
    )

    action = WEBHOOK["pause"]

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("webhook_id", help="The webhook, wh_….")

    def handle(self, *args: Any, **options: Any) -> None:
        webhook = get_webhook(options["webhook_id"])
        assert self.action.operation is not None
        self.action.operation(webhook, actor=self.actor)
        self.result(str(QueueEntry.objects.unclaimed().filter(webhook=webhook).count()))
