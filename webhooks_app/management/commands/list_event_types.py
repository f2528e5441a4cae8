"""``manage.py list_event_types``"""

from __future__ import annotations

from typing import Any

from ...event_types import EventType, registry
from ..base import WebhooksCommand


class Command(WebhooksCommand):
    help = "List the event types that you can emit and subscribe to."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        if not len(registry):
            self.note("No event types found. Define them in the module webhook_events.py of one of your apps.")
        for group, event_types in registry.groups().items():
            self.result(self.style.MIGRATE_HEADING(group or "Other"))
            for event_type in event_types:
                self._print(event_type)

    def _print(self, event_type: EventType[Any]) -> None:
        self.result(f"  {self.style.SUCCESS(event_type.name)}  {event_type.description}")
        schema = event_type.json_schema()
        required = schema.get("required", [])
        fields = (name if name in required else f"[{name}]" for name in schema.get("properties", {}))
        self.result(f"      {', '.join(fields)}")
