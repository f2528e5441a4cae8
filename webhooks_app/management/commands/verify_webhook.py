"""``manage.py verify_webhook``"""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from ...models import Delivery
from ...operations.lifecycle import start_verification
from ..base import WebhooksCommand, follow, get_webhook


class Command(WebhooksCommand):
    help = (
        "Verify a webhook that is not active, or its pending URL: show each attempt of the handshake, and print the "
        "webhook's status. Exits with status 1 if the handshake fails."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("webhook_id", help="The webhook, wh_….")
        parser.add_argument("--no-wait", action="store_true", help="Only queue the handshake for the workers.")

    def handle(self, *args: Any, **options: Any) -> None:
        webhook = get_webhook(options["webhook_id"])
        delivery = start_verification(webhook, actor=self.actor)
        if not options["no_wait"]:
            self.note(f"Sending a challenge to {webhook.awaited_url} …")
            follow(delivery, self.note)
            webhook.refresh_from_db()
        self.result(webhook.status)
        if delivery.state == Delivery.State.CANCELLED:
            raise CommandError(f"The handshake was cancelled ({delivery.state_reason}): the webhook was changed.")
        if delivery.state == Delivery.State.GIVEN_UP:
            raise CommandError(f"The handshake failed: {webhook.status_reason}")
