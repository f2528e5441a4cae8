"""The console: the app's models in Django's admin."""

from __future__ import annotations

from .api_keys import ApiKeyAdmin
from .audit import AuditEntryAdmin
from .deliveries import DeliveryAdmin
from .events import EventAdmin
from .problems import ProblemAdmin
from .replays import ReplayAdmin
from .webhooks import WebhookAdmin

__all__ = [
    "ApiKeyAdmin",
    "AuditEntryAdmin",
    "DeliveryAdmin",
    "EventAdmin",
    "ProblemAdmin",
    "ReplayAdmin",
    "WebhookAdmin",
]
