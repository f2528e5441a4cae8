"""The models: webhooks and their keys, events, deliveries, and the data of the workers."""

from .announcement import Announcement, MailPreference
from .api_key import ApiKey
from .attempt import DeliveryAttempt
from .audit import AuditEntry
from .delivery import Delivery
from .episode import Episode
from .event import Event, EventReference, IdempotencyKey, StoredAnswer
from .health import RecentResults, WebhookHealth
from .lane import QueueLane
from .maintenance import MaintenanceJob, WorkerProcess, WorkerSession
from .order import OrderNumber
from .portal_link import PortalLink
from .problem import Problem
from .queue_entry import QueueEntry
from .replay import Replay
from .rollup import Rollup, Tally
from .signing_key import SigningKey
from .webhook import Webhook

__all__ = [
    "Announcement",
    "ApiKey",
    "AuditEntry",
    "Delivery",
    "DeliveryAttempt",
    "Episode",
    "Event",
    "EventReference",
    "IdempotencyKey",
    "MailPreference",
    "MaintenanceJob",
    "OrderNumber",
    "PortalLink",
    "Problem",
    "QueueEntry",
    "QueueLane",
    "RecentResults",
    "Replay",
    "Rollup",
    "SigningKey",
    "StoredAnswer",
    "Tally",
    "Webhook",
    "WebhookHealth",
    "WorkerProcess",
    "WorkerSession",
]
