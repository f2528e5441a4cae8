"""Event types, and the catalogue of them."""

from __future__ import annotations

from .base import EventData, EventType, UtcTime
from .operational import DELIVERY_GIVEN_UP as DELIVERY_GIVEN_UP
from .operational import INTERNAL_EVENT_TYPES as INTERNAL_EVENT_TYPES
from .operational import INTERNAL_NAMES as INTERNAL_NAMES
from .operational import OPERATIONAL_EVENT_TYPES as OPERATIONAL_EVENT_TYPES
from .operational import OPERATIONAL_NAMES as OPERATIONAL_NAMES
from .operational import RECOVERY_ENDED as RECOVERY_ENDED
from .operational import RETRY_NOTICE as RETRY_NOTICE
from .operational import VERIFICATION as VERIFICATION
from .operational import WEBHOOK_DISABLED as WEBHOOK_DISABLED
from .operational import WEBHOOK_FAILING as WEBHOOK_FAILING
from .operational import WEBHOOK_RECOVERED as WEBHOOK_RECOVERED
from .operational import retry_notice_data as retry_notice_data
from .registered import EventTypeRegistry, registry

__all__ = ["EventData", "EventType", "EventTypeRegistry", "UtcTime", "registry"]
