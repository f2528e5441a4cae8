"""Writing down what became of claimed attempts, many at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import DatabaseError, connections, transaction

from ..models import Delivery, DeliveryAttempt, Webhook
from .claim import Finished
from .notice import save_notices
from .outcome import State
from .queue import writing


def record(using: str, finished: Sequence[Finished], now: datetime) -> list[Finished]:
    """Write attempts and what follows from them; return those whose claim was still good.

    The others came back after their lease, or for a delivery that was ended meanwhile: nothing is written for them.
    """
    with writing(using):
        webhooks = _lock_verified(using, finished)
        valid = _still_claimed(using, finished)
        _save_steps(using, valid, now)
        _save_attempts(using, [item.attempt for item in valid])
        save_notices(using, valid)
        for item in valid:
            if item.claim.pick.kind == Delivery.Kind.VERIFICATION and item.claim.pick.webhook_id in webhooks:
                _conclude_handshake(webhooks[item.claim.pick.webhook_id], item)
    return valid


def _lock_verified(using: str, finished: Sequence[Finished]) -> Mapping[str, Webhook]:
    """Lock the webhooks whose handshake is decided, before their deliveries: the order that everyone keeps."""
    decided = [
        item.claim.pick.webhook_id
        for item in finished
        if item.claim.pick.kind == Delivery.Kind.VERIFICATION and item.step.state != State.PENDING
    ]
    if not decided:
        return {}
    return Webhook.objects.using(using).existing().select_for_update().in_bulk(decided)


def _still_claimed(using: str, finished: Sequence[Finished]) -> list[Finished]:
    claimed = (
        Delivery.objects.using(using)
        .filter(pk__in=[item.claim.delivery_id for item in finished], claimed_at__isnull=False)
        .pending()
        .select_for_update()
        .order_by("pk")
    )
    numbers = dict(claimed.values_list("pk", "attempt_count"))
    return [item for item in finished if numbers.get(item.claim.delivery_id) == item.claim.number]


def _save_steps(using: str, finished: Sequence[Finished], now: datetime) -> None:
    deliveries = Delivery.objects.using(using)
    for state in (State.SUCCEEDED, State.GIVEN_UP):
        ended = [item.claim.delivery_id for item in finished if item.step.state == state]
        if ended:
            deliveries.filter(pk__in=ended).update(state=state, finished_at=now, claimed_at=None, next_attempt_at=None)
    retries = [(item.step.next_attempt_at, item.claim.delivery_id) for item in finished if item.step.next_attempt_at]
    if retries:
        _save_retries(using, retries)


def _save_retries(using: str, retries: Sequence[tuple[datetime, str]]) -> None:
    connection = connections[using]
    fields: list[Any] = [Delivery._meta.get_field(name) for name in ("next_attempt_at", "id")]
    rows = [
        [field.get_db_prep_value(value, connection) for field, value in zip(fields, retry, strict=True)]
        for retry in retries
    ]
    table = connection.ops.quote_name(Delivery._meta.db_table)
    with connection.cursor() as cursor:
        cursor.executemany(f"UPDATE {table} SET claimed_at = NULL, next_attempt_at = %s WHERE id = %s", rows)


def _save_attempts(using: str, attempts: Sequence[DeliveryAttempt]) -> None:
    """Insert the log of the attempts. What a receiver said may never keep an outcome from being written."""
    manager = DeliveryAttempt.objects.using(using)
    try:
        with transaction.atomic(using=using):
            manager.bulk_create(attempts)
    except (DatabaseError, ValueError):
        manager.bulk_create([_without_response_text(attempt) for attempt in attempts])


def _without_response_text(attempt: DeliveryAttempt) -> DeliveryAttempt:
    attempt.response_headers = []
    attempt.response_body = attempt.retry_after = ""
    return attempt


def _conclude_handshake(webhook: Webhook, item: Finished) -> None:
    if webhook.status != Webhook.Status.PENDING or webhook.url != item.claim.lane.url:
        return
    if item.step.state == State.SUCCEEDED:
        webhook.activate()
    else:
        webhook.fail(item.attempt.message)
