"""``manage.py try_webhook_filter``"""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from ...models import Event
from ...routing.admission import events_for
from ...routing.preview import try_filter
from ..base import WebhooksCommand, get_webhook, printable, read_json


class Command(WebhooksCommand):
    help = (
        "Evaluate a filter on a past event, and print `sent`, or `not sent: …` with the unmet condition. "
        "Nothing is saved or sent."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("webhook_id", help="The webhook, wh_….")
        parser.add_argument("event_id", help="An event of the webhook's owner, evt_….")
        parser.add_argument("--filter", metavar="JSON|@FILE|-", help="The filter. Default: the filter of the webhook.")

    def handle(self, *args: Any, **options: Any) -> None:
        webhook = get_webhook(options["webhook_id"])
        event = Event.objects.filter(events_for(webhook), pk=options["event_id"]).first()
        if event is None:
            raise CommandError(f"The owner of {webhook.pk} has no event {options['event_id']!r}.")
        source = webhook.filter if options["filter"] is None else read_json(options["filter"], noun="The filter")[0]
        found = try_filter(webhook, event, source)
        self.result("sent" if found is None else printable(f"not sent: {found}"))
