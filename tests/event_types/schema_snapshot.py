"""The published JSON Schemas. Update them with ``python -m tests.event_types.schema_snapshot``."""

import json
from pathlib import Path

from webhooks_app.event_types import INTERNAL_EVENT_TYPES, OPERATIONAL_EVENT_TYPES
from webhooks_app.event_types.builtin import PRESENTATION_EVENT_TYPES

EVERY_TYPE = (*PRESENTATION_EVENT_TYPES, *INTERNAL_EVENT_TYPES, *OPERATIONAL_EVENT_TYPES)

FILE = Path(__file__).with_name("event_type_schemas.json")


def current():
    return {each.name: each.json_schema() for each in EVERY_TYPE}


def promised():
    return json.loads(FILE.read_text())


if __name__ == "__main__":
    FILE.write_text(json.dumps(current(), indent=2) + "\n")
