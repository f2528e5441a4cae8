"""The examples of records and bodies in the API's documentation, for the event types of the project."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from rest_framework.serializers import (
    CharField,
    ChoiceField,
    IntegerField,
    ListField,
    ListSerializer,
    Serializer,
)

from ..catalogue import EVENT_ID
from ..conf import retry_policy
from ..event_types import EventType
from ..protocol.ids import attempt_id
from . import deliveries, emission, replays, serializers

WEBHOOK_ID = "wh_019c138f9ac012d1c9a64a2e0f3b7d55"
DELIVERY_ID = "dlv_019c138fa291c40a7e55d3b0962f18ec"
REPLAY_ID = "rpl_019c138fb3a15dd0e8c1b92f04a6c7e3"
MAX_CONDITION_LENGTH = 40
_SECRET = "whsec_VYJ6q0o9zD3vA4m4kQ1yPDkWwT0v1sO8n5oJfX2bE0c="  # noqa: S105 (an example)

_URL = "https://hooks.example.com/archive"
_OCCURRED = "2026-01-31T12:00:02.000512Z"
_QUEUED = {"delivery_id": DELIVERY_ID, "event_id": EVENT_ID}
_REFUSED = {
    "delivery_id": "dlv_019c138fa291c40a7e55d3b0962f18ed",
    "reason": f"Webhook {WEBHOOK_ID} is disabled. Enable it first. Reason: Disabled by its account.",
    "reason_code": "webhook_disabled",
}
_ATTEMPT: dict[str, Any] = {
    "id": attempt_id(DELIVERY_ID, 1),
    "number": 1,
    "result": "succeeded",
    "message": "",
    "message_code": "",
    "started_at": "2026-01-31T12:00:02.010394Z",
    "duration_ms": 48,
    "url": _URL,
    "response_status": 200,
    "response_headers": [["Content-Type", "text/plain"]],
    "response_body": "thanks",
    "retry_after": "",
}
_AUDIT_ENTRY: dict[str, Any] = {
    "id": "aud_019c138fb1c74f9a06de8b125c7a43e9",
    "action": "webhook.changed",
    "via": "api",
    "by": "whk_5b1f0c9a72de",
    "changes": {"rate_limit": [None, 10.0]},
    "reason": "",
    "reason_code": "",
    "created": "2026-01-31T12:05:00.000731Z",
}
_WITHOUT_TYPE: dict[type[Any], dict[str, Any]] = {
    serializers.NewSecretSerializer: {"secret": _SECRET, "overlap_seconds": 3600},
    serializers.QueuedDeliverySerializer: {"delivery_id": DELIVERY_ID},
    serializers.QueuedEventSerializer: _QUEUED,
    deliveries.SelectionSerializer: {"delivery_ids": [DELIVERY_ID]},
    deliveries.RedeliveredSerializer: {"queued": [_QUEUED], "refused": [_REFUSED]},
    replays.NewReplaySerializer: {"webhook_id": WEBHOOK_ID, "since": "2026-01-31T06:00:00Z", "states": ["missed"]},
    serializers.TriedFilterSerializer: {"matches": True, "mismatch": ""},
    serializers.DecisionSerializer: {
        "webhook_id": WEBHOOK_ID,
        "sent": True,
        "reason": "sent",
        "detail": "",
        "delivery_id": DELIVERY_ID,
    },
    serializers.AuditEntrySerializer: _AUDIT_ENTRY,
}


@cache
def examples(event_types: Sequence[EventType[Any]]) -> dict[type[Any], dict[str, Any]]:
    """Return examples by serializer, with the first of the event types; fewer examples if there is none.

    A host's subclass of a serializer has no example.
    """
    return {**_WITHOUT_TYPE, **(_with(event_types[0]) if event_types else {})}


def _with(event_type: EventType[Any]) -> dict[type[Any], dict[str, Any]]:
    name, data = event_type.name, event_type.example
    condition = _condition(data)
    webhook = _webhook(name, condition)
    delivery = _delivery(name)
    event = {"id": EVENT_ID, "type": name, "created": _OCCURRED, "test": False}
    return {
        serializers.NewWebhookSerializer: {field: webhook[field] for field in ("url", "events", "description")},
        serializers.WebhookChangesSerializer: {"events": [name], "retry_notices": False},
        serializers.WebhookSerializer: webhook,
        serializers.WebhookWithSecretSerializer: {**webhook, "secret": _SECRET},
        serializers.RotatedWebhookSerializer: {**webhook, "secret": _SECRET, "warnings": []},
        serializers.TestRequestSerializer: {"webhook_id": WEBHOOK_ID, "event_type": name},
        replays.ReplaySerializer: _replay(name),
        deliveries.DeliverySerializer: delivery,
        deliveries.DeliveryWithAttemptsSerializer: {**delivery, "attempts": [_ATTEMPT]},
        serializers.EventSerializer: event,
        emission.NewEvent: {"type": name, "owner": "42", "data": data, "references": ["order_17"]},
        serializers.EventWithDataSerializer: {
            **event,
            "data": data,
            "references": ["order_17"],
            "ordering_key": "order_17",
        },
        serializers.TryFilterSerializer: {"event_id": EVENT_ID, **({"filter": condition} if condition else {})},
        serializers.EventTypeSerializer: {
            "name": name,
            "group": event_type.group,
            "description": event_type.description,
            "schema": event_type.json_schema(),
            "example": data,
        },
    }


def _condition(data: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a filter that the data satisfies: the first field with a short text or a whole number."""
    for name, value in data.items():
        if isinstance(value, (str, int)) and len(str(value)) <= MAX_CONDITION_LENGTH and name.isidentifier():
            return {name: value}
    return None


def _example(serializer: type[Serializer[Any]], **values: Any) -> dict[str, Any]:
    """Return a record with these values; its other fields are null or empty, or have the first of their choices."""
    return {name: values.get(name, _empty(field)) for name, field in serializer().fields.items()}


def _empty(field: Any) -> Any:
    match field:
        case ChoiceField():
            return None if field.allow_null else next(iter(field.choices))
        case CharField():
            return None if field.allow_null else ""
        case ListField() | ListSerializer():
            return []
        case IntegerField():
            return None if field.allow_null else 0
        case Serializer():
            return None if field.allow_null else _example(type(field))
    return None


def _webhook(name: str, condition: dict[str, Any] | None) -> dict[str, Any]:
    return _example(
        serializers.WebhookSerializer,
        id=WEBHOOK_ID,
        url=_URL,
        events=[name],
        status="pending",
        status_changed_at="2026-01-31T12:00:00.123456Z",
        health=_example(serializers.HealthSerializer, state="unverified"),
        filter=condition,
        description="Archive",
        retry_notices=True,
        rate_limit=10.0,
        signatures=["native", "standard-ed25519"],
        headers={"X-Tenant": "********"},
        public_keys=[
            {
                "scheme": "standard-ed25519",
                "key": "whpk_LNTsQeE1u5qQzxRPB4k3RxFi0QyHEFGcoTSk0WVt4ps=",
                "state": "current",
                "valid_from": None,
                "valid_until": None,
            }
        ],
        created="2026-01-31T12:00:00.123456Z",
    )


def _delivery(name: str) -> dict[str, Any]:
    policy = retry_policy()
    return _example(
        deliveries.DeliverySerializer,
        id=DELIVERY_ID,
        webhook_id=WEBHOOK_ID,
        event_id=EVENT_ID,
        event_type=name,
        state="succeeded",
        attempt_count=1,
        max_attempts=policy.max_attempts,
        retry_policy=policy.name,
        created="2026-01-31T12:00:02.001204Z",
        finished_at="2026-01-31T12:00:02.060718Z",
    )


def _replay(name: str) -> dict[str, Any]:
    return _example(
        replays.ReplaySerializer,
        id=REPLAY_ID,
        webhook_id=WEBHOOK_ID,
        state="ready",
        since="2026-01-31T06:00:00.000000Z",
        until="2026-01-31T12:00:00.000000Z",
        states=["missed", "given_up", "cancelled"],
        matched=1204,
        failing=[{"since": "2026-01-31T06:00:38.000000Z", "until": "2026-01-31T11:58:02.000000Z", "given_up": 1204}],
        sample=[{"event_id": EVENT_ID, "type": name, "created": "2026-01-31T06:00:02.000512Z", "state": "missed"}],
        created="2026-01-31T12:00:00.000000Z",
    )
