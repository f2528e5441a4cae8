"""Writing down what became of claimed attempts, many at once."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime

from django.db import DataError, IntegrityError

from ..models import Delivery, QueueEntry, Webhook
from .claim import Finished
from .disclosure import reason_of_handshake
from .outcome import State
from .retry_notice import save_notices
from .sql import sql_for
from .tally import tally

logger = logging.getLogger("webhooks_app.delivery")


def record(using: str, finished: Sequence[Finished], now: datetime) -> list[Finished]:
    """Write attempts and what follows from them; return those whose claim was still good.

    The others came back after their lease, or for a delivery that was ended meanwhile: nothing is written for them.
    What a receiver said may never keep an outcome from being written.
    """
    try:
        return _record(using, finished, now)
    except (DataError, IntegrityError, ValueError):
        if len(finished) > 1:
            return [valid for item in finished for valid in record(using, [item], now)]
        return _record_without_text(using, finished[0], now)


def _record_without_text(using: str, item: Finished, now: datetime) -> list[Finished]:
    try:
        return _record(using, [item._replace(attempt=item.attempt.without_response_text())], now)
    except (DataError, IntegrityError, ValueError) as error:  # Its lease will end, and the attempt be recorded as lost.
        logger.error(  # noqa: TRY400 - a traceback would quote what the receiver said
            "Delivery %s could not be recorded: %s.", item.claim.delivery_id, _kind_of(error)
        )
        return []


def _kind_of(error: Exception) -> str:
    """Name an error without its text, in which databases quote the row."""
    sqlstate = getattr(error.__cause__, "sqlstate", None) or getattr(error.__cause__, "pgcode", None)
    return f"{type(error).__name__}, SQLSTATE {sqlstate}" if sqlstate else type(error).__name__


def _record(using: str, finished: Sequence[Finished], now: datetime) -> list[Finished]:
    statements = sql_for(using)
    with statements.writing():
        webhooks = _lock_verified(using, finished)
        # In one order for everyone, so that two who record the same deliveries wait for each other in turn.
        with _promoting(using, finished, now):
            saved = statements.save(sorted(finished, key=_delivery_id), now)
        valid = [item for item in finished if item.claim.key in saved]
        save_notices(using, valid)
        if counts := tally(valid):
            statements.save_tally(counts, now)
        for item in valid:
            if _decides_handshake(item) and item.claim.pick.webhook_id in webhooks:
                _conclude_handshake(webhooks[item.claim.pick.webhook_id], item)
    return valid


def _promoting(using: str, finished: Sequence[Finished], now: datetime) -> AbstractContextManager[None]:
    """Make the deliveries due that waited for these, if they are recorded as final."""
    final = [item.claim.delivery_id for item in finished if item.frees_next]
    return QueueEntry.objects.using(using).filter(pk__in=final).promoting(now) if final else nullcontext()


def _delivery_id(item: Finished) -> str:
    return item.claim.delivery_id


def _decides_handshake(item: Finished) -> bool:
    return item.claim.pick.kind == Delivery.Kind.VERIFICATION and item.step.state != State.PENDING


def _lock_verified(using: str, finished: Sequence[Finished]) -> Mapping[str, Webhook]:
    """Lock the webhooks whose handshake is decided, before their deliveries: the order that everyone keeps."""
    decided = {item.claim.pick.webhook_id for item in finished if _decides_handshake(item)}
    if not decided:
        return {}
    webhooks = Webhook.objects.using(using).existing().filter(pk__in=decided).order_by("pk").select_for_update()
    return {webhook.pk: webhook for webhook in webhooks}


def _conclude_handshake(webhook: Webhook, item: Finished) -> None:
    if webhook.status != Webhook.Status.PENDING or webhook.url != item.claim.lane.url:
        return
    if item.step.state == State.SUCCEEDED:
        webhook.activate()
    else:
        webhook.fail(reason_of_handshake(item.attempt.result, item.attempt.message))
