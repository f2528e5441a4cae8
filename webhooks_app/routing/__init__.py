"""The selection of webhooks for an event, and the reasons for it."""

from .admission import (
    FilterResult,
    Reason,
    RoutedEvent,
    admits,
    concerns,
    evaluate_filter,
    is_readable,
    is_subscribed,
    subscribed_to,
    webhooks_for,
)

__all__ = [
    "FilterResult",
    "Reason",
    "RoutedEvent",
    "admits",
    "concerns",
    "evaluate_filter",
    "is_readable",
    "is_subscribed",
    "subscribed_to",
    "webhooks_for",
]
