"""Writing down what became of claimed attempts, many at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from django.db import DatabaseError, OperationalError, transaction

from ..models import Delivery, Webhook
from .attempt_log import AttemptLog
from .claim import Finished
from .notice import save_notices
from .outcome import State
from .statements import statements_for
from .statements.portable import PortableStatements


def record(using: str, finished: Sequence[Finished], now: datetime) -> list[Finished]:
    """Write attempts and what follows from them; return those whose claim was still good.

    The others came back after their lease, or for a delivery that was ended meanwhile: nothing is written for them.
    """
    statements = statements_for(using)
    with statements.writing():
        webhooks = _lock_verified(using, finished)
        saved = statements.save_steps(finished, now)
        valid = [item for item in finished if item.claim.delivery_id in saved]
        _save_attempts(statements, [item.attempt for item in valid])
        save_notices(using, valid)
        for item in valid:
            if _decides_handshake(item) and item.claim.pick.webhook_id in webhooks:
                _conclude_handshake(webhooks[item.claim.pick.webhook_id], item)
    return valid


def _decides_handshake(item: Finished) -> bool:
    return item.claim.pick.kind == Delivery.Kind.VERIFICATION and item.step.state != State.PENDING


def _lock_verified(using: str, finished: Sequence[Finished]) -> Mapping[str, Webhook]:
    """Lock the webhooks whose handshake is decided, before their deliveries: the order that everyone keeps."""
    decided = [item.claim.pick.webhook_id for item in finished if _decides_handshake(item)]
    if not decided:
        return {}
    return Webhook.objects.using(using).existing().select_for_update().in_bulk(decided)


def _save_attempts(statements: PortableStatements, logs: Sequence[AttemptLog]) -> None:
    """Insert the log of the attempts. What a receiver said may never keep an outcome from being written."""
    if not logs:
        return
    try:
        with transaction.atomic(using=statements.using):
            statements.save_attempts(logs)
    except OperationalError:
        raise
    except (DatabaseError, ValueError):
        statements.save_attempts([log.without_response_text() for log in logs])


def _conclude_handshake(webhook: Webhook, item: Finished) -> None:
    if webhook.status != Webhook.Status.PENDING or webhook.url != item.claim.lane.url:
        return
    if item.step.state == State.SUCCEEDED:
        webhook.activate()
    else:
        webhook.fail(item.attempt.message)
