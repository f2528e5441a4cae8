"""The common part of operations on webhooks: one transaction, a locked row, a permitted actor, attributed entries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..database.sql import writing
from ..models import Webhook
from ..models.audit import acting
from .actors import BaseActor
from .rights import Right


@contextmanager
def performing(right: Right, webhook: Webhook, actor: BaseActor) -> Iterator[Webhook]:
    """Lock and reload the webhook, and attribute all changes within the block to the actor.

    Its owner and state may have changed since it was loaded, so only the locked values count. Yields another instance
    of the saved row. Raises AccessDeniedError, and WebhookStateError for a deleted webhook.
    """
    with acting(actor), writing(webhook.alias, Webhook):
        saved = webhook.lock()
        actor.require(right, webhook.owner_id)
        webhook.require_existing()
        yield saved
