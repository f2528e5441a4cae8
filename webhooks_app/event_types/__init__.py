"""The catalogue of event types, and what one is made of."""

from __future__ import annotations

from .base import EventData, EventType, UtcTime
from .catalogue import EventTypeRegistry, registry
from .compatibility import breaking_changes
from .internal import INTERNAL_EVENT_TYPES, RETRY_NOTICE, VERIFICATION, retry_notice_data
from .presentation import PRESENTATION_EVENT_TYPES

__all__ = [
    "INTERNAL_EVENT_TYPES",
    "PRESENTATION_EVENT_TYPES",
    "RETRY_NOTICE",
    "VERIFICATION",
    "EventData",
    "EventType",
    "EventTypeRegistry",
    "UtcTime",
    "breaking_changes",
    "registry",
    "retry_notice_data",
]
