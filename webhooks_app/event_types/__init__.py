"""Event types, and the catalogue of them."""

from __future__ import annotations

from .base import EventData, EventType, UtcTime
from .catalogue import EventTypeRegistry, registry
from .compatibility import breaking_changes
from .internal import INTERNAL_EVENT_TYPES, RETRY_NOTICE, VERIFICATION, retry_notice_data
from .operational import (
    DELIVERY_GIVEN_UP,
    OPERATIONAL_EVENT_TYPES,
    WEBHOOK_DISABLED,
    WEBHOOK_FAILING,
    WEBHOOK_RECOVERED,
)

__all__ = [
    "DELIVERY_GIVEN_UP",
    "INTERNAL_EVENT_TYPES",
    "OPERATIONAL_EVENT_TYPES",
    "RETRY_NOTICE",
    "VERIFICATION",
    "WEBHOOK_DISABLED",
    "WEBHOOK_FAILING",
    "WEBHOOK_RECOVERED",
    "EventData",
    "EventType",
    "EventTypeRegistry",
    "UtcTime",
    "breaking_changes",
    "registry",
    "retry_notice_data",
]
