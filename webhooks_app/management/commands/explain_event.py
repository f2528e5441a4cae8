"""``manage.py explain_event``"""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from ...models import Event
from ...routing.report import Decision, decide
from ..base import WebhooksCommand


class Command(WebhooksCommand):
    help = (
        "Print a line for each webhook of an event's owner, and of the platform: whether it was sent the event, and "
        "why, by its state, event types and filter at that time."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("event_id", help="The event, evt_….")

    def handle(self, *args: Any, **options: Any) -> None:
        event = Event.objects.filter(pk=options["event_id"]).first()
        if event is None:
            raise CommandError(f"There is no event {options['event_id']!r}.")
        decisions = decide(event, with_platform=True)
        for decision in decisions:
            self.result(_described(decision))
        if not decisions:
            self.note("No webhook could get it: its owner has none, and neither has the platform.", role="WARNING")


def _described(decision: Decision) -> str:
    sent = f"sent ({decision.delivery.pk})" if decision.delivery else "not sent"
    return f"{decision.webhook.pk} {sent}: {decision.explanation}"
