"""The selection of webhooks for an event, and the reasons for it."""

from .admission import (
    Reason,
    RoutedEvent,
    Verdict,
    admits,
    concerns,
    is_readable,
    is_subscribed,
    judge,
    subscribed_to,
    webhooks_for,
)

__all__ = [
    "Reason",
    "RoutedEvent",
    "Verdict",
    "admits",
    "concerns",
    "is_readable",
    "is_subscribed",
    "judge",
    "subscribed_to",
    "webhooks_for",
]
