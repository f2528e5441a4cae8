"""The selection of webhooks for an event, and the reasons for it."""

from .admission import (
    Reason,
    RoutedEvent,
    admits,
    concerns,
    filter_holds,
    is_subscribed,
    subscribed_to,
    webhooks_for,
)

__all__ = [
    "Reason",
    "RoutedEvent",
    "admits",
    "concerns",
    "filter_holds",
    "is_subscribed",
    "subscribed_to",
    "webhooks_for",
]
