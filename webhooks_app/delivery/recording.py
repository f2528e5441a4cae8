"""Recording the results of attempts in batches."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from ..database.sql import concerns_rows, kind_of
from ..models import Delivery, QueueEntry, QueueLane, Webhook
from .claim import Claim, Finished
from .disclosure import reason_of_handshake
from .outcome import State
from .retry_notice import save_notices
from .sql import PortableSql
from .tally import tally

logger = logging.getLogger("webhooks_app.delivery")

UNRECORDABLE = "unrecordable"
HANDSHAKE = Delivery.Kind.VERIFICATION


def record(statements: PortableSql, finished: Sequence[Finished], now: datetime) -> list[Finished]:
    """Record attempts and their next steps. Return those with a valid claim.

    Others arrived after their lease, or their delivery has ended meanwhile. Nothing is recorded for them. Text from a
    receiver never prevents the recording of an outcome.
    """
    try:
        return _record(statements, finished, now)
    except Exception as error:
        if not concerns_rows(error):
            raise
        if len(finished) > 1:
            return [valid for item in finished for valid in record(statements, [item], now)]
        return _record_without_text(statements, finished[0], now)


def _record_without_text(statements: PortableSql, item: Finished, now: datetime) -> list[Finished]:
    try:
        return _record(statements, [item._replace(attempt=item.attempt.without_response_text())], now)
    except Exception as error:
        if not concerns_rows(error):
            raise
        text = "Delivery %s to webhook %s is cancelled, because its attempt could not be recorded: %s."
        ids = item.claim.delivery_id, item.claim.pick.webhook_id
        logger.error(text, *ids, kind_of(error), extra={"webhook_id": ids[1]})  # noqa: TRY400 - quotes the receiver
        _cancel(statements, item)
        return []


def _cancel(statements: PortableSql, item: Finished) -> None:
    """Cancel a delivery whose attempts cannot be recorded. Otherwise workers would repeat it for ever."""
    using, pick, lane = statements.using, item.claim.pick, item.claim.lane
    claim = QueueEntry.objects.using(using).filter(pk=pick.delivery_id, worker=lane.worker, attempt=pick.number)
    with statements.writing():
        Delivery.objects.using(using).filter(pk=pick.delivery_id).cancel(UNRECORDABLE, among=claim)


def _record(statements: PortableSql, finished: Sequence[Finished], now: datetime) -> list[Finished]:
    using = statements.using
    handshakes = [item for item in finished if item.claim.pick.kind == HANDSHAKE and item.step.next_attempt_at is None]
    with statements.writing():
        webhooks = _lock_verified(using, handshakes) if handshakes else {}
        freeing = [item.claim for item in finished if item.frees_next]
        if freeing or webhooks:
            QueueLane.objects.using(using).lock(webhooks.keys() | {claim.pick.webhook_id for claim in freeing})
        following = _following(using, freeing) if freeing else ()
        saved = statements.save(sorted(finished, key=_delivery_id), now)
        if following:
            QueueEntry.objects.using(using).promote(following, now)
        valid = [item for item in finished if (item.attempt.delivery_id, item.attempt.number) in saved]
        save_notices(using, valid)
        if counts := tally(valid):
            statements.save_tally(counts, now)
        for item in handshakes:
            if item.claim.key in saved and item.claim.pick.webhook_id in webhooks:
                _conclude_handshake(webhooks[item.claim.pick.webhook_id], item)
    return valid


def _following(using: str, claims: Sequence[Claim]) -> Collection[str]:
    """Return the next deliveries in the groups of these claims."""
    return QueueEntry.objects.using(using).filter(pk__in=[claim.delivery_id for claim in claims]).following()


def _delivery_id(item: Finished) -> str:
    return item.attempt.delivery_id


def _lock_verified(using: str, handshakes: Sequence[Finished]) -> Mapping[str, Webhook]:
    """Lock the webhooks with a final handshake. A failed one cancels deliveries, so their lanes are locked next."""
    decided = {item.claim.pick.webhook_id for item in handshakes}
    webhooks = Webhook.objects.using(using).existing().filter(pk__in=decided).order_by("pk").select_for_update()
    return {webhook.pk: webhook for webhook in webhooks}


def _conclude_handshake(webhook: Webhook, item: Finished) -> None:
    if webhook.status != Webhook.Status.PENDING or webhook.url != item.claim.lane.url:
        return
    if item.step.state == State.SUCCEEDED:
        webhook.activate()
    else:
        webhook.fail(reason_of_handshake(item.attempt.result, item.attempt.message))
