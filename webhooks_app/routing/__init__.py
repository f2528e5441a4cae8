"""Which webhooks get an event, and why the others do not."""

from .admission import (
    Reason,
    RoutedEvent,
    admits,
    concerns,
    filter_mismatch,
    is_subscribed,
    subscribed_to,
    webhooks_for,
)

__all__ = [
    "Reason",
    "RoutedEvent",
    "admits",
    "concerns",
    "filter_mismatch",
    "is_subscribed",
    "subscribed_to",
    "webhooks_for",
]
