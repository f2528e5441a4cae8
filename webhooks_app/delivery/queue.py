"""The deliveries as a queue with a lane for each webhook: claim what is due, give back what was not begun.

A webhook's row is the lock of its lane: who claims from a lane holds it for the length of that transaction, so that no
two workers exceed the webhook's cap together. No lock outlives a transaction; between claim and record a delivery is
protected by its lease, and ``attempt_count``, which every claim moves on, keeps a late worker from recording.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import connections
from django.db.models import Count, F, Min, Q

from ..handshake import VERIFICATION_TYPE
from ..models import Delivery, Event, Webhook
from .claim import Claim
from .clock import Clock
from .lanes import MAX_LANES, UNVERIFIED_KINDS, Lane, Pick
from .statements import statements_for

LOST_AGAIN_AFTER = timedelta(seconds=5)


class Queue:
    def __init__(self, *, using: str, clock: Clock, lease: timedelta, max_in_flight_per_webhook: int) -> None:
        self._using = using
        self._statements = statements_for(using)
        self._clock = clock
        self._lease = lease
        self._cap = max_in_flight_per_webhook
        self._last_webhook_id: str | None = None

    def claim(self, limit: int) -> list[Claim]:
        """Claim at most ``limit`` due deliveries, evenly from the webhooks that have some.

        A webhook is given no more than its cap leaves free, counting what every worker has in flight for it. Nothing
        is returned only if no webhook has anything to give. Claims that are lost are for recording only.
        """
        began_after = self._last_webhook_id
        while True:
            webhook_ids = self._webhooks_in_turn(limit)
            claims = self._claim_from(webhook_ids, limit) if webhook_ids else []
            has_gone_round = self._last_webhook_id is None
            if claims or (has_gone_round and began_after is None):
                return claims
            if has_gone_round:
                began_after = None

    def release(self, claims: Sequence[Claim]) -> None:
        """Give back claims whose request was not started: due at once, the attempt not counted."""
        mine = self._deliveries(claim.delivery_id for claim in claims if not claim.is_lost)
        mine.filter(claimed_at__isnull=False).update(
            attempt_count=F("attempt_count") - 1, claimed_at=None, next_attempt_at=self._clock()
        )

    def next_due_at(self) -> datetime | None:
        """Return when the next delivery that nobody is sending is, or was, due; None if none will be sent."""
        sendable = Q(webhook__status=Webhook.Status.ACTIVE) | Q(kind__in=UNVERIFIED_KINDS)
        waiting = Delivery.objects.using(self._using).waiting().filter(sendable, webhook__deleted_at=None)
        earliest: datetime | None = waiting.aggregate(at=Min("next_attempt_at"))["at"]
        return earliest

    def _webhooks_in_turn(self, limit: int) -> list[str]:
        """Return webhooks with something due, going on where the last call stopped."""
        now = self._clock()
        page = self._statements.pending_webhooks(after=self._last_webhook_id)
        due = [webhook_id for webhook_id, due_at in page if due_at and due_at <= now]
        if len(due) > limit:
            due = due[:limit]
            self._last_webhook_id = due[-1]
        else:
            self._last_webhook_id = page[-1][0] if len(page) == MAX_LANES else None
        return due

    def _claim_from(self, webhook_ids: Sequence[str], limit: int) -> list[Claim]:
        with self._statements.writing():
            lanes = self._open_lanes(webhook_ids, limit)
            picks = self._drop_expired(self._statements.pick_due(list(lanes.values()), self._clock()))
            self._take([pick for pick in picks if pick.claimed_at is None])
            self._put_off([pick for pick in picks if pick.claimed_at is not None])
            return self._claims(picks, lanes)

    def _open_lanes(self, webhook_ids: Sequence[str], limit: int) -> dict[str, Lane]:
        """Lock the webhooks that no other worker is claiming from; return those with room by webhook id."""
        rows = self._lock_webhooks(webhook_ids)
        in_flight = self._in_flight([row["webhook_id"] for row in rows])
        share = max(1, limit // max(1, len(rows)))
        lanes = {}
        for row in rows:
            lane = Lane(**row, quota=min(share, self._cap - in_flight.get(row["webhook_id"], 0)))
            if lane.stop_reason:
                self._cancel_waiting(lane)
            if lane.quota > 0:
                lanes[lane.webhook_id] = lane
        return lanes

    def _lock_webhooks(self, webhook_ids: Sequence[str]) -> list[dict[str, Any]]:
        features = connections[self._using].features
        webhooks = Webhook.objects.using(self._using).filter(pk__in=webhook_ids).order_by()
        if features.has_select_for_update:
            webhooks = webhooks.select_for_update(
                skip_locked=features.has_select_for_update_skip_locked, no_key=features.has_select_for_no_key_update
            )
        columns = (
            "pk",
            "owner_id",
            "url",
            "encrypted_secret",
            "encrypted_previous_secret",
            "previous_secret_until",
            "retry_notices",
            "status",
            "deleted_at",
        )
        return [
            {"webhook_id": pk, "deleted": deleted_at is not None, **dict(zip(columns[1:-1], row, strict=True))}
            for pk, *row, deleted_at in webhooks.values_list(*columns)
        ]

    def _in_flight(self, webhook_ids: Sequence[str]) -> Mapping[str, int]:
        claimed = Delivery.objects.using(self._using).filter(
            webhook__in=webhook_ids, claimed_at__isnull=False, next_attempt_at__gt=self._clock()
        )
        return dict(claimed.order_by().values_list("webhook_id").annotate(Count("pk")))

    def _cancel_waiting(self, lane: Lane) -> None:
        """Cancel what was queued while the webhook was being stopped."""
        waiting = Delivery.objects.using(self._using).filter(webhook=lane.webhook_id).waiting()
        if lane.stop_reason == "webhook_failed":
            waiting = waiting.except_tests()
        waiting.cancel(lane.stop_reason)

    def _drop_expired(self, picks: Sequence[Pick]) -> list[Pick]:
        now = self._clock()
        expired = {pick.delivery_id for pick in picks if pick.expires_at is not None and pick.expires_at <= now}
        if expired:
            self._deliveries(expired).cancel("expired")
        return [pick for pick in picks if pick.delivery_id not in expired]

    def _take(self, picks: Sequence[Pick]) -> None:
        now = self._clock()
        self._statements.take([pick.delivery_id for pick in picks], now, now + self._lease)

    def _put_off(self, lost: Sequence[Pick]) -> None:
        """Keep lost claims out of the next looks until they are recorded; if that fails, they come back."""
        if lost:
            later = self._clock() + LOST_AGAIN_AFTER
            self._deliveries(pick.delivery_id for pick in lost).update(next_attempt_at=later)

    def _claims(self, picks: Sequence[Pick], lanes: Mapping[str, Lane]) -> list[Claim]:
        event_ids = {pick.event_id for pick in picks if pick.event_id is not None}
        events = Event.objects.using(self._using).filter(pk__in=event_ids).order_by()
        found = {pk: (type_, body.encode()) for pk, type_, body in events.values_list("pk", "type", "body")}
        claims = []
        for pick in picks:
            if pick.event_id is not None and pick.event_id not in found:
                continue  # Deleted since it was picked, and the delivery with it.
            event_type, body = found[pick.event_id] if pick.event_id else (VERIFICATION_TYPE, b"")
            is_lost = pick.claimed_at is not None
            number = pick.attempt_count if is_lost else pick.attempt_count + 1
            claims.append(
                Claim(
                    pick=pick,
                    lane=lanes[pick.webhook_id],
                    number=number,
                    event_type=event_type,
                    body=body,
                    is_lost=is_lost,
                )
            )
        return claims

    def _deliveries(self, ids: Any) -> Any:
        return Delivery.objects.using(self._using).filter(pk__in=list(ids))
