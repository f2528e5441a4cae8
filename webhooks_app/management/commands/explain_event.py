"""``manage.py explain_event``"""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from ...models import Event
from ...models.standing import Health, healths_of
from ...pages.health import as_text, in_short
from ...pages.outlook import recovery_in_words
from ...routing.admission import is_routed
from ...routing.report import Decision, decide
from ..base import WebhooksCommand, printable


class Command(WebhooksCommand):
    help = (
        "Explain the routing of an event. Prints a line for each webhook of the event's owner and of the platform: "
        "sent or not sent, with the reason at that time."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("event_id", help="The event, evt_….")

    def handle(self, *args: Any, **options: Any) -> None:
        event = Event.objects.filter(pk=options["event_id"]).first()
        if event is None:
            raise CommandError(f"Unknown event {options['event_id']!r}.")
        decisions = decide(event, with_platform=True)
        healths = healths_of([decision.webhook for decision in decisions])
        for decision in decisions:
            self.result(_described(decision, healths[decision.webhook.pk]))
        if not decisions and not is_routed(event):
            self.note("The event was addressed to one webhook, and its delivery has been deleted.", role="WARNING")
        elif not decisions:
            self.note("Neither the event's owner nor the platform has a webhook.", role="WARNING")


def _described(decision: Decision, health: Health) -> str:
    sent = f"sent ({decision.delivery.pk})" if decision.delivery else "not sent"
    now = " ".join(map(as_text, filter(None, [in_short(decision.webhook, health), *recovery_in_words(health)])))
    receiver = f" Its receiver now: {health.standing.label}. {now}" if health.standing.tone in ("bad", "late") else ""
    return printable(f"{decision.webhook.pk} {sent}: {decision.explanation}{receiver.rstrip()}")
