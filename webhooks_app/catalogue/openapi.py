"""The event catalogue as OpenAPI 3.1: the ``webhooks`` section and its schemas."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from ..choices import retry_policy
from ..event_types import INTERNAL_EVENT_TYPES, VERIFICATION, EventType
from ..protocol.envelope import encode
from ..protocol.handshake import challenge_body
from ..signatures import EVENT_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER

EVENT_ID = "evt_019c138fa2905be1f0d27c3384a6e91b"
_CREATED = datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC)
_CHALLENGE = {"type": "string", "description": "The same string as in the request."}


def document(event_types: Iterable[EventType[Any]], *, title: str) -> dict[str, Any]:
    """Return an OpenAPI document that contains only the requests to receivers."""
    types = tuple(event_types)
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": "1"},
        "webhooks": webhooks(types),
        "components": {"schemas": schemas(types)},
    }


def webhooks(event_types: Iterable[EventType[Any]]) -> dict[str, Any]:
    """Return the ``webhooks`` section: the given types and the internal messages."""
    return {event_type.name: {"post": _operation(event_type)} for event_type in (*event_types, *INTERNAL_EVENT_TYPES)}


def schemas(event_types: Iterable[EventType[Any]]) -> dict[str, Any]:
    """Return the schema of each body by event type, and the schemas of models nested in its data."""
    found: dict[str, Any] = {}
    for event_type in (*event_types, *INTERNAL_EVENT_TYPES):
        data = event_type.json_schema(ref_template=f"#/components/schemas/{event_type.name}.{{model}}")
        del data["$schema"]
        nested = data.pop("$defs", {})
        found[event_type.name] = _body_schema(event_type, data)
        found.update({f"{event_type.name}.{model}": schema for model, schema in nested.items()})
    return found


def example(event_type: EventType[Any]) -> dict[str, Any]:
    """Return the body of a delivery of this type, as JSON."""
    if event_type is VERIFICATION:
        body = challenge_body(event_type.example["challenge"])
    else:
        body = encode(id=EVENT_ID, type=event_type.name, created=_CREATED, data=event_type.example)
    decoded: dict[str, Any] = json.loads(body)
    return decoded


def _body_schema(event_type: EventType[Any], data: dict[str, Any]) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "id": {"type": "string", "pattern": "^evt_[0-9a-z]+$", "description": "Use it to detect duplicates."},
        "type": {"const": event_type.name},
        "created": {"type": "string", "format": "date-time", "description": "Time of the event, in UTC."},
        "data": data,
    }
    if event_type is VERIFICATION:
        del properties["id"], properties["created"]
    return {
        "type": "object",
        "description": event_type.description,
        "required": list(properties),
        "properties": properties,
    }


def _operation(event_type: EventType[Any]) -> dict[str, Any]:
    return {
        "summary": event_type.description,
        "tags": [event_type.group or "Events"],
        "security": [],
        "parameters": [
            _header(SIGNATURE_HEADER, {"type": "string", "pattern": "^sha256=[0-9a-f]{64}$"}, _SIGNATURE),
            _header(TIMESTAMP_HEADER, {"type": "string", "pattern": "^[0-9]+$"}, "Unix time in seconds."),
            _header(EVENT_HEADER, {"const": event_type.name}, "The type in the body."),
        ],
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {"$ref": f"#/components/schemas/{event_type.name}"},
                    "examples": {"body": {"value": example(event_type)}},
                }
            },
        },
        "responses": _responses(event_type),
    }


_SIGNATURE = (
    "`sha256=` and the lower-case hexadecimal HMAC-SHA256, keyed with the webhook's secret, "
    f"of the value of `{TIMESTAMP_HEADER}`, a full stop and the raw body."
)


def _header(name: str, schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {"name": name, "in": "header", "required": True, "description": description, "schema": schema}


def _responses(event_type: EventType[Any]) -> dict[str, Any]:
    received: dict[str, Any] = {"description": "Received. No other status confirms receipt."}
    if event_type is VERIFICATION:
        schema = {"type": "object", "required": ["challenge"], "properties": {"challenge": _CHALLENGE}}
        answer = {"schema": schema, "example": {"challenge": event_type.example["challenge"]}}
        received = {"description": "The challenge, returned.", "content": {"application/json": answer}}
    return {"200": received, "default": {"description": f"A failed attempt. {_retries_of(event_type)}"}}


def _retries_of(event_type: EventType[Any]) -> str:
    delays = [f"{delay.total_seconds():g}" for delay in retry_policy().delays]
    if event_type in INTERNAL_EVENT_TYPES and event_type is not VERIFICATION:
        return "It is not retried."
    return f"It is retried after {', '.join(delays)} seconds." if delays else "It is not retried."
