"""Actions on rows: the right that each requires, and the states of a row that permit it.

An operation checks the rule on the locked row. Everything that offers the operation checks it on the row that it shows.
What the pages say about an action is in ``pages.actions``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..exceptions import WebhookStateError
from ..models import ApiKey, Delivery, Problem, Replay, Webhook
from ..models.hold import require_retryable
from . import rights
from .actors import BaseActor, changing
from .rights import Right

__all__ = ["RowAction"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RowAction:
    """``require`` raises WebhookStateError, with the reason, if the state of a row does not permit the action."""

    right: Right
    require: Callable[[Any], object]

    def refusal(self, row: Any) -> WebhookStateError | None:
        """Return the reason why the row's state does not permit the action; None if it does."""
        try:
            self.require(row)
        except WebhookStateError as error:
            return error
        return None

    @contextmanager
    def on(self, row: Webhook | ApiKey | Delivery | Replay | Problem, actor: BaseActor) -> Iterator[Any]:
        """Lock and reload a row as ``changing`` does, and raise WebhookStateError if it does not permit the action."""
        with changing(self.right, row, actor) as saved:
            self.require(row)
            yield saved


VERIFY = RowAction(right=rights.VERIFY_WEBHOOK, require=Webhook.require_verifiable)
SEND_TEST = RowAction(right=rights.TEST_WEBHOOK, require=Webhook.require_testable)
PAUSE = RowAction(right=rights.PAUSE_WEBHOOK, require=Webhook.require_unpaused)
RESUME = RowAction(right=rights.PAUSE_WEBHOOK, require=Webhook.require_paused)
ENABLE = RowAction(right=rights.DISABLE_WEBHOOK, require=Webhook.require_disabled)
DISABLE = RowAction(right=rights.DISABLE_WEBHOOK, require=Webhook.require_enabled)
UPDATE = RowAction(right=rights.UPDATE_WEBHOOK, require=Webhook.require_existing)
REPLACE_SECRET = RowAction(right=rights.ROTATE_SECRET, require=Webhook.require_existing)
USE_PREPARED_SECRET = RowAction(right=rights.ROTATE_SECRET, require=Webhook.require_prepared_keys)
"""To activate or to withdraw it."""
REVOKE_PREVIOUS_SECRET = RowAction(right=rights.ROTATE_SECRET, require=Webhook.require_previous_keys)
RECOVER = RowAction(right=rights.REPLAY, require=Webhook.require_existing)
SEND_MISSED = RowAction(right=rights.REPLAY, require=Webhook.require_sendable)
REMOVE_WEBHOOK = RowAction(right=rights.DELETE_WEBHOOK, require=Webhook.require_existing)

SEND_AGAIN = RowAction(right=rights.REDELIVER, require=Delivery.require_redeliverable)
RETRY = RowAction(right=rights.REDELIVER, require=require_retryable)

STEPS_OF_REPLAYS = {
    step: RowAction(right=rights.REPLAY, require=partial(Replay.require, step=step)) for step in Replay.STEPS
}

ACKNOWLEDGE, IGNORE, REOPEN = (
    RowAction(right=rights.HANDLE_PROBLEM, require=partial(Problem.require_before, state=state))
    for state in (Problem.State.ACKNOWLEDGED, Problem.State.IGNORED, Problem.State.OPEN)
)

REVOKE_KEY = RowAction(right=rights.CHANGE_KEY, require=ApiKey.require_unrevoked)
REMOVE_KEY = RowAction(right=rights.DELETE_KEY, require=lambda key: None)
