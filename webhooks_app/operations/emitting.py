"""Emission on behalf of other services, which use a service key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..emission import NewEvent, emit_many
from ..models import Event
from .actors import BaseActor
from .rights import EMIT_EVENT


def emit_events(new_events: Sequence[NewEvent[Any]], *, actor: BaseActor) -> list[Event]:
    """Record all of these events, or none; return them in the given order.

    Raises django.core.exceptions.PermissionDenied, and InvalidBatchError with the errors by index.
    """
    for owner_id in {getattr(new.owner, "pk", None) for new in new_events}:
        actor.require(EMIT_EVENT, owner_id)
    return emit_many(new_events)
