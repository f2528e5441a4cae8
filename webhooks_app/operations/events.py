"""Removing single events, for example because they mention a person."""

from __future__ import annotations

from django.db import models, router

from ..maintenance.forgetting import Forgotten
from ..maintenance.forgetting import forget_events as forget
from ..models import Event
from .actors import PROJECT, BaseActor
from .rights import FORGET_OWNER

__all__ = ["forget_events"]


def forget_events(events: models.QuerySet[Event], *, actor: BaseActor = PROJECT) -> Forgotten:
    """Delete the events of a queryset with their deliveries and attempts, in short transactions.

    Pending deliveries are not sent. A request in flight is not stopped, and its result is not recorded. An interrupted
    call can be repeated.
    """
    for owner_id in events.order_by().values_list("owner", flat=True).distinct():
        actor.require(FORGET_OWNER, owner_id)
    return forget(router.db_for_write(Event), events)
