"""``manage.py emit_event``"""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import CommandError, CommandParser

from ...emission import emit
from ...event_types import registry
from ...exceptions import InvalidEventDataError
from ...models import Event
from ...plurals import counted
from ..base import DATA_HELP, OWNER_HELP, WebhooksCommand, get_owner, read_event_data


class Command(WebhooksCommand):
    help = "Emit an event to the subscribed webhooks and print its id. `list_event_types` lists the types."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("type", help="The event type, such as ppt.generation.completed.")
        owner = parser.add_mutually_exclusive_group(required=True)
        owner.add_argument("--owner", metavar="NAME|KEY", help=f"The owner of the event. {OWNER_HELP}")
        owner.add_argument(
            "--platform", action="store_true", help="Emit without an owner, to webhooks of the platform only."
        )
        parser.add_argument("--data", required=True, metavar="JSON|@FILE|-", help=DATA_HELP)

        parser.add_argument("--idempotency-key", metavar="KEY", help="Emit only once for this key and owner.")
        parser.add_argument(
            "--reference",
            action="append",
            default=[],
            metavar="ID",
            help="A business id by which the event can be found. May be repeated up to 8 times.",
        )
        parser.add_argument(
            "--ordering-key", metavar="KEY", help="Webhooks with order by key get its events one after the other."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        event_type = registry.get_emittable(options["type"])
        owner = None if options["platform"] else get_owner(options["owner"])
        data = read_event_data(options["data"])
        try:
            event = emit(
                event_type,
                data,
                owner=owner,
                idempotency_key=options["idempotency_key"],
                references=options["reference"],
                ordering_key=options["ordering_key"],
            )
        except InvalidEventDataError as error:
            example = json.dumps(event_type.example, ensure_ascii=False)
            raise CommandError(f"{error}\nA valid example: {example}") from error
        self._note_number(event)
        self.result(event.id)

    def _note_number(self, event: Event) -> None:
        webhooks = event.deliveries.count()
        if webhooks:
            self.note(f"Queued for {counted(webhooks, 'webhook')}.")
        else:
            self.note(f"Queued for no webhook. The reasons: manage.py explain_event {event.id}", role="WARNING")
