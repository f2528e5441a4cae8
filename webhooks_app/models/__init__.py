"""The tables: registrations, what happened, and what was sent."""

from .api_key import ApiKey
from .audit import AuditEntry
from .delivery import Delivery, DeliveryAttempt
from .event import Event
from .health import WebhookHealth
from .replay import Replay
from .rollup import Rollup, Tally
from .upkeep import ChoreState, WorkerProcess
from .webhook import Webhook

__all__ = [
    "ApiKey",
    "AuditEntry",
    "ChoreState",
    "Delivery",
    "DeliveryAttempt",
    "Event",
    "Replay",
    "Rollup",
    "Tally",
    "Webhook",
    "WebhookHealth",
    "WorkerProcess",
]
