"""The event types that an owner may see, subscribe to and test."""

from __future__ import annotations

from typing import Any

from ..event_types import EventTypeRegistry, registry
from ..owners import owners


def event_types_for(owner: Any | None) -> EventTypeRegistry:
    """Return the event types that an owner may see, or all of them for None, the platform."""
    return registry if owner is None else _seen_by(owner)


def public_event_types() -> EventTypeRegistry:
    """Return the event types of the API's public documentation."""
    return _seen_by(None)


def _seen_by(owner: Any | None) -> EventTypeRegistry:
    policy = owners()
    return registry.where(lambda event_type: not event_type.operational and policy.sees(owner, event_type))
