"""The tables: registrations, what happened, and what was sent."""

from .api_key import ApiKey
from .delivery import Delivery, DeliveryAttempt
from .event import Event
from .webhook import Webhook

__all__ = ["ApiKey", "Delivery", "DeliveryAttempt", "Event", "Webhook"]
