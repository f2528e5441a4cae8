"""``manage.py send_test_event``"""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from ...models import Delivery
from ...operations.sending import send_test_event
from ..base import DATA_HELP, WebhooksCommand, follow, get_webhook, read_event_data


class Command(WebhooksCommand):
    help = (
        "Send a test event to one webhook, even if it is not subscribed to the type, and print the id of the delivery."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("webhook_id", help="The webhook, wh_….")
        parser.add_argument("type", help="The event type; `list_event_types` lists them.")
        parser.add_argument("--data", metavar="JSON|@FILE|-", help=f"{DATA_HELP} Default: the type's example.")
        parser.add_argument(
            "--wait",
            action="store_true",
            help="Show each attempt until the delivery is finished. Exit with status 1 if it is given up.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        webhook = get_webhook(options["webhook_id"])
        data = None if options["data"] is None else read_event_data(options["data"])
        delivery = send_test_event(webhook, options["type"], data, actor=self.actor)
        self.result(delivery.id)
        if options["wait"]:
            self._wait(delivery)

    def _wait(self, delivery: Delivery) -> None:
        follow(delivery, self.note)
        if delivery.state != Delivery.State.SUCCEEDED:
            reason = f" ({delivery.state_reason})" if delivery.state_reason else ""
            raise CommandError(f"The test event was not delivered: {delivery.get_state_display()}{reason}.")
        self.note("Delivered.", role="SUCCESS")
