"""The examples of records and bodies in the API's documentation."""

from __future__ import annotations

from typing import Any

from ..catalogue.openapi import EVENT_ID
from ..protocol.ids import attempt_id
from . import deliveries, emission, replays, serializers

WEBHOOK_ID = "wh_019c138f9ac012d1c9a64a2e0f3b7d55"
DELIVERY_ID = "dlv_019c138fa291c40a7e55d3b0962f18ec"
REPLAY_ID = "rpl_019c138fb3a15dd0e8c1b92f04a6c7e3"
_SECRET = "whsec_VYJ6q0o9zD3vA4m4kQ1yPDkWwT0v1sO8n5oJfX2bE0c="  # noqa: S105 (an example)

_WEBHOOK: dict[str, Any] = {
    "id": WEBHOOK_ID,
    "url": "https://hooks.example.com/ppt",
    "events": ["ppt.generation.completed", "ppt.generation.failed"],
    "status": "pending",
    "status_reason": "",
    "status_changed_at": "2026-01-31T12:00:00.123456Z",
    "paused_at": None,
    "failing_since": None,
    "filter": {"error": {"$startsWith": "E"}},
    "description": "Archive",
    "retry_notices": True,
    "max_in_flight": None,
    "rate_limit": 10.0,
    "signatures": ["native", "standard-ed25519"],
    "headers": {"X-Tenant": "********"},
    "retry_policy": "extended",
    "accepted_statuses": "200",
    "order": "none",
    "public_keys": [
        {
            "scheme": "standard-ed25519",
            "key": "whpk_LNTsQeE1u5qQzxRPB4k3RxFi0QyHEFGcoTSk0WVt4ps=",
            "valid_until": None,
        }
    ],
    "previous_secret_until": None,
    "created": "2026-01-31T12:00:00.123456Z",
}
_EVENT: dict[str, Any] = {
    "id": EVENT_ID,
    "type": "ppt.generation.failed",
    "created": "2026-01-31T12:00:02.000512Z",
    "test": False,
}
_DELIVERY: dict[str, Any] = {
    "id": DELIVERY_ID,
    "webhook_id": WEBHOOK_ID,
    "event_id": EVENT_ID,
    "event_type": "ppt.generation.failed",
    "kind": "event",
    "state": "succeeded",
    "state_reason": "",
    "attempt_count": 1,
    "max_attempts": 4,
    "retry_policy": "specification",
    "next_attempt_at": None,
    "hold": None,
    "created": "2026-01-31T12:00:02.001204Z",
    "finished_at": "2026-01-31T12:00:02.060718Z",
    "redelivery_of": None,
    "replay_id": None,
}
_ATTEMPT: dict[str, Any] = {
    "id": attempt_id(DELIVERY_ID, 1),
    "number": 1,
    "result": "succeeded",
    "message": "",
    "started_at": "2026-01-31T12:00:02.010394Z",
    "duration_ms": 48,
    "url": "https://hooks.example.com/ppt",
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
    "created": "2026-01-31T12:05:00.000731Z",
}
_REPLAY: dict[str, Any] = {
    "id": REPLAY_ID,
    "webhook_id": WEBHOOK_ID,
    "state": "ready",
    "state_reason": "",
    "since": "2026-01-31T06:00:00.000000Z",
    "until": "2026-01-31T12:00:00.000000Z",
    "events": [],
    "states": ["missed", "given_up", "cancelled"],
    "rate": None,
    "matched": 1204,
    "queued": 0,
    "failing": [
        {"since": "2026-01-31T06:00:38.000000Z", "until": "2026-01-31T11:58:02.000000Z", "given_up": 1204},
    ],
    "sample": [
        {
            "event_id": EVENT_ID,
            "type": "ppt.generation.failed",
            "created": "2026-01-31T06:00:02.000512Z",
            "state": "missed",
        }
    ],
    "created": "2026-01-31T12:00:00.000000Z",
    "started_at": None,
    "finished_at": None,
}
_QUEUED = {"delivery_id": DELIVERY_ID, "event_id": EVENT_ID}
_REFUSED = {
    "delivery_id": "dlv_019c138fa291c40a7e55d3b0962f18ed",
    "reason": f"Webhook {WEBHOOK_ID} is disabled (Disabled by its owner.). Enable it first.",
}
_DATA = {"error": "The outline has no headings to make pages from."}

EXAMPLES: dict[type[Any], dict[str, Any]] = {
    serializers.NewWebhookSerializer: {key: _WEBHOOK[key] for key in ("url", "events", "description")},
    serializers.WebhookChangesSerializer: {"events": ["ppt.generation.completed"], "retry_notices": False},
    serializers.NewSecretSerializer: {"secret": _SECRET, "overlap_seconds": 3600},
    serializers.WebhookSerializer: _WEBHOOK,
    serializers.WebhookWithSecretSerializer: {**_WEBHOOK, "secret": _SECRET},
    serializers.RotatedWebhookSerializer: {**_WEBHOOK, "secret": _SECRET, "warnings": []},
    serializers.TestRequestSerializer: {"webhook_id": WEBHOOK_ID, "event_type": "ppt.generation.failed"},
    serializers.QueuedDeliverySerializer: {"delivery_id": DELIVERY_ID},
    serializers.QueuedEventSerializer: _QUEUED,
    deliveries.SelectionSerializer: {"delivery_ids": [DELIVERY_ID]},
    deliveries.RedeliveredSerializer: {"queued": [_QUEUED], "refused": [_REFUSED]},
    replays.NewReplaySerializer: {"webhook_id": WEBHOOK_ID, "since": "2026-01-31T06:00:00Z", "states": ["missed"]},
    replays.ReplaySerializer: _REPLAY,
    serializers.DeliverySerializer: _DELIVERY,
    serializers.DeliveryWithAttemptsSerializer: {**_DELIVERY, "attempts": [_ATTEMPT]},
    serializers.EventSerializer: _EVENT,
    emission.NewEventSerializer: {
        "type": "ppt.generation.failed",
        "owner": "42",
        "data": _DATA,
        "references": ["ppt_8f14e45f"],
    },
    serializers.EventWithDataSerializer: {
        **_EVENT,
        "data": _DATA,
        "references": ["ppt_8f14e45f"],
        "ordering_key": "ppt_8f14e45f",
    },
    serializers.TryFilterSerializer: {"event_id": EVENT_ID, "filter": {"error": {"$startsWith": "E"}}},
    serializers.TriedFilterSerializer: {"matches": True, "mismatch": ""},
    serializers.DecisionSerializer: {
        "webhook_id": WEBHOOK_ID,
        "sent": True,
        "reason": "sent",
        "detail": "",
        "delivery_id": DELIVERY_ID,
    },
    serializers.AuditEntrySerializer: _AUDIT_ENTRY,
    serializers.EventTypeSerializer: {
        "name": "ppt.generation.failed",
        "group": "PPT generation",
        "description": "Generation failed",
        "schema": {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]},
        "example": _DATA,
    },
}
"""Examples by serializer; a host's subclass without an entry of its own has no example."""
