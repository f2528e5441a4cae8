"""``manage.py check_event_types``"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from ... import catalogue
from ...event_types import registry
from ...owners import public_event_types
from ...plurals import counted
from ..base import WebhooksCommand


class Command(WebhooksCommand):
    help = (
        "Compare the event types with an earlier catalogue, and exit with 1 if a change would break receivers. "
        "`export_event_catalogue` writes the catalogue. A type hidden by the owner policy counts as present."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--against", required=True, metavar="FILE", help="The earlier catalogue, as JSON.")

    def handle(self, *args: Any, **options: Any) -> None:
        old = catalogue.read(Path(options["against"]))
        emittable = [registry.get(name) for name in registry.emittable_names()]
        comparison = catalogue.compare(old, catalogue.json_document(emittable))
        public = public_event_types()
        for name in comparison.added:
            if name in public:
                self.note(f"{name} is new.")
        if comparison.breaking:
            changes = "\n".join(f"  {change}" for change in comparison.breaking)
            number = counted(len(comparison.breaking), "breaking change")
            raise CommandError(f"{number}:\n{changes}\nKeep the old event type and add a new one.")
        self.note("No breaking change.")
