"""Removing events: single ones, for example because they mention a person, or everything that belongs to an owner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import models, router

from ..maintenance import forgetting
from ..maintenance.forgetting import Forgotten
from ..models import Event, Webhook
from ..models.audit import acting
from .actors import PROJECT, BaseActor
from .rights import FORGET_OWNER

__all__ = ["forget_events", "forget_owner"]


def forget_events(events: models.QuerySet[Event], *, actor: BaseActor = PROJECT) -> Forgotten:
    """Delete the events of a queryset with their deliveries and attempts, in short transactions.

    Pending deliveries are not sent. A request in flight is not stopped, and its result is not recorded. An interrupted
    call can be repeated.
    """
    for owner_id in events.order_by().values_list("owner", flat=True).distinct():
        actor.require(FORGET_OWNER, owner_id)
    return forgetting.forget_events(router.db_for_write(Event), events)


def forget_owner(
    owner: Any, *, actor: BaseActor = PROJECT, progress: Callable[[int], object] = lambda count: None
) -> Forgotten:
    """Delete the webhooks, API keys and events of an owner, with their deliveries, in short transactions.

    The webhooks are stopped first. The owner itself remains; call this before you delete an owner with a long history.
    Audit entries remain until their retention ends. ``progress`` is called after each transaction with its number of
    events and deliveries. An interrupted call can be repeated.
    """
    actor.require(FORGET_OWNER, owner.pk)
    with acting(actor):
        return forgetting.forget(router.db_for_write(Webhook), owner.pk, progress)
