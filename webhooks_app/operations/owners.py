"""Removing everything that belongs to an owner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import router

from ..maintenance.forgetting import Forgotten, forget
from ..models import Webhook
from ..models.audit import acting
from .actors import PROJECT, BaseActor
from .rights import FORGET_OWNER

__all__ = ["forget_owner"]


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
        return forget(router.db_for_write(Webhook), owner.pk, progress)
