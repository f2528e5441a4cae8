"""Event types, and the catalogue of them."""

from __future__ import annotations

from .base import EventData, EventType, UtcTime
from .catalogue import EventTypeRegistry, registry
from .compatibility import breaking_changes
from .internal import INTERNAL_EVENT_TYPES as INTERNAL_EVENT_TYPES
from .internal import RETRY_NOTICE as RETRY_NOTICE
from .internal import VERIFICATION as VERIFICATION
from .internal import retry_notice_data as retry_notice_data
from .operational import DELIVERY_GIVEN_UP as DELIVERY_GIVEN_UP
from .operational import OPERATIONAL_EVENT_TYPES as OPERATIONAL_EVENT_TYPES
from .operational import WEBHOOK_DISABLED as WEBHOOK_DISABLED
from .operational import WEBHOOK_FAILING as WEBHOOK_FAILING
from .operational import WEBHOOK_RECOVERED as WEBHOOK_RECOVERED

__all__ = ["EventData", "EventType", "EventTypeRegistry", "UtcTime", "breaking_changes", "registry"]
