"""The schema of an event type as a table."""

from __future__ import annotations

from typing import Any

from webhooks_app.portal.event_types import Field, fields_of

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["amount", "items"],
    "properties": {
        "amount": {"type": "integer", "description": "In cents."},
        "state": {"enum": ["paid", "open"], "type": "string"},
        "paid_at": {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}], "description": "If paid."},
        "items": {"type": "array", "items": {"$ref": "#/$defs/Item"}},
        "buyer": {"$ref": "#/$defs/Buyer"},
    },
    "$defs": {
        "Item": {"type": "object", "required": ["sku"], "properties": {"sku": {"type": "string"}}},
        "Buyer": {"type": "object", "description": "Who pays.", "properties": {"of": {"$ref": "#/$defs/Buyer"}}},
    },
}


def test_each_field_has_its_path_type_meaning_and_example() -> None:
    found = fields_of(SCHEMA, {"amount": 5, "state": "paid", "items": [{"sku": "a"}]})

    assert found[:6] == [
        Field("amount", "integer", True, "In cents.", "5"),
        Field("state", '"paid" | "open"', False, "", '"paid"'),
        Field("paid_at", "date-time | null", False, "If paid.", ""),
        Field("items", "list of object", True, "", ""),
        Field("items[].sku", "string", True, "", '"a"'),
        Field("buyer", "object", False, "Who pays.", ""),
    ]


def test_a_model_that_contains_itself_ends() -> None:
    assert [field.name for field in fields_of(SCHEMA, {})][-2:] == ["buyer.of.of.of", "buyer.of.of.of.of"]
