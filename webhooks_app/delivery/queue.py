"""The deliveries as a queue with a lane for each webhook: claim what is due, give back what was not begun.

A webhook's row is the lock of its lane: who claims from a lane holds it for the length of that transaction, so that no
two workers exceed the webhook's cap together. No lock outlives a transaction; between claim and record a delivery is
protected by its lease. A late worker cannot record: ``claimed_at`` is cleared by every end of a claim, and
``attempt_count`` is moved on by every claim.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db.models import F, Min, Q

from ..handshake import VERIFICATION_TYPE
from ..models import Delivery, Webhook
from .claim import Claim
from .clock import Clock
from .lanes import MAX_LANES, UNVERIFIED_KINDS, Lane, Pick
from .pace import Pace
from .statements import statements_for

LOST_AGAIN_AFTER = timedelta(seconds=5)
LOOK_AT_LEAST_EVERY_SECONDS = 0.05
MANY = 64
"""Claims at once after which their webhooks are taken to have more."""

PACED_FOR, PACED_FOR_AT_MOST = timedelta(seconds=0.05), timedelta(seconds=5)
"""How long a webhook at its rate limit is left alone, so that what becomes free is claimed in batches."""


def oldest_due_at(using: str, now: datetime, *, among: Collection[str] | None = None) -> datetime | None:
    """Return since when the delivery that is due longest could have been sent; None if none is due.

    ``among`` are the ids of the webhooks that matter, by default all.

    Left out is what a pause, or a handshake that is still to pass, keeps back. Costs two index entries a webhook.
    """
    statements = statements_for(using)
    active = Webhook.objects.using(using).active()
    oldest: list[datetime] = []
    after = None
    while True:
        page = statements.pending_webhooks(after=after)
        due = {webhook_id: due_at for webhook_id, due_at in page if due_at is not None and due_at <= now}
        wanted = list(due) if among is None else list(due.keys() & among)
        if wanted:
            oldest += [due[pk] for pk in active.filter(pk__in=wanted).values_list("pk", flat=True)]
        if len(page) < MAX_LANES:
            return min(oldest, default=None)
        after = page[-1][0]


class Queue:
    """Claims and gives back. ``cap`` says what a webhook without a limit of its own may have in flight."""

    def __init__(self, *, using: str, clock: Clock, lease: timedelta, cap: Callable[[str], int]) -> None:
        self._using = using
        self._statements = statements_for(using)
        self._clock = clock
        self._lease = lease
        self._cap = cap
        self._last_webhook_id: str | None = None
        self._slots: dict[str, datetime] = {}
        self.due_soon: list[datetime] = []
        """When what was just queued will be due by a clock that lags: what the last look found of it."""
        self._busy: list[str] = []
        self._with_lost = True
        self._looked_at = -math.inf

    @property
    def look_again_at(self) -> datetime | None:
        """When there may be more that the last look could not give; None if it left nothing behind.

        A webhook whose rate limit is used up may be given something again, or what is due soon is due.
        """
        return min([*self._slots.values(), *self.due_soon], default=None)

    def claim(self, limit: int, *, with_lost: bool = True) -> list[Claim]:
        """Claim at most ``limit`` due deliveries, evenly from the webhooks that have some.

        A webhook is given no more than its limits leave free, counting what every worker has in flight for it. Nothing
        is returned only if no webhook has anything to give. Claims that are lost, which may be left out, are for
        recording only.
        """
        self._with_lost = with_lost
        self.due_soon = []
        claims = self._claim_from(self._busy, limit) if self._may_skip_look() else []
        began_after = self._last_webhook_id
        while not claims:
            webhook_ids = self._webhooks_in_turn(limit)
            claims = self._claim_from(webhook_ids, limit) if webhook_ids else []
            has_gone_round = self._last_webhook_id is None
            if has_gone_round and began_after is None:
                break
            if has_gone_round:
                began_after = None
        self._busy = list({claim.pick.webhook_id: None for claim in claims}) if len(claims) >= MANY else []
        return claims

    def release(self, claims: Sequence[Claim]) -> None:
        """Give back claims whose request was not started: due at once, the attempt not counted."""
        groups: dict[tuple[int, datetime], list[str]] = defaultdict(list)
        for claim in claims:
            groups[claim.number, claim.lane.claimed_at].append(claim.delivery_id)
        for (number, claimed_at), ids in groups.items():
            # Another number or time: the claim was given back or lost, and the delivery is somebody else's by now.
            self._deliveries(ids).filter(attempt_count=number, claimed_at=claimed_at).update(
                attempt_count=number - 1, claimed_at=None, next_attempt_at=self._clock()
            )

    def next_due_at(self) -> datetime | None:
        """Return when the next delivery that nobody is sending is, or was, due; None if none will be sent."""
        sendable = Q(webhook__status=Webhook.Status.ACTIVE) | Q(kind__in=UNVERIFIED_KINDS)
        lanes = {"webhook__deleted_at": None, "webhook__paused_at": None}
        waiting = Delivery.objects.using(self._using).waiting().filter(sendable, **lanes)
        earliest: datetime | None = waiting.aggregate(at=Min("next_attempt_at"))["at"]
        return earliest

    def _may_skip_look(self) -> bool:
        """Tell whether to go on with the webhooks that just had much: looking for others each time would cost more."""
        return bool(self._busy) and self._clock.monotonic() - self._looked_at < LOOK_AT_LEAST_EVERY_SECONDS

    def _webhooks_in_turn(self, limit: int) -> list[str]:
        """Return webhooks with something due, going on where the last call stopped."""
        now, latest = self._clock(), self._clock.latest()
        self._looked_at = self._clock.monotonic()
        self._slots = {webhook_id: at for webhook_id, at in self._slots.items() if at > now}
        page = self._statements.pending_webhooks(after=self._last_webhook_id)
        due = [webhook_id for webhook_id, due_at in page if due_at and due_at <= now]
        self.due_soon += [due_at for _, due_at in page if due_at and now < due_at <= latest]
        if len(due) > limit:
            due = due[:limit]
            self._last_webhook_id = due[-1]
        else:
            self._last_webhook_id = page[-1][0] if len(page) == MAX_LANES else None
        return [webhook_id for webhook_id in due if webhook_id not in self._slots]

    def _claim_from(self, webhook_ids: Sequence[str], limit: int) -> list[Claim]:
        with self._statements.writing():
            now = self._clock()
            lanes = self._open_lanes(webhook_ids, limit, now)
            picks = self._take(lanes, now)
            self._move_paces(lanes, picks, now)
            return self._claims(picks, lanes)

    def _take(self, lanes: Mapping[str, Lane], now: datetime) -> list[Pick]:
        """Claim what is due; what has expired is cancelled, and never hides what is due behind it."""
        lost_again_at = now + LOST_AGAIN_AFTER if self._with_lost else None
        while True:
            due = self._statements.claim(list(lanes.values()), now, now + self._lease, lost_again_at)
            picks = self._drop_expired(due, now)
            if picks or not due:
                return picks

    def _open_lanes(self, webhook_ids: Sequence[str], limit: int, now: datetime) -> dict[str, Lane]:
        """Lock the webhooks that no other worker is claiming from; return those with room by webhook id."""
        rows = self._statements.lock_lanes(webhook_ids)
        share = max(1, limit // max(1, len(rows)))
        lanes = {}
        for row in rows:
            lane = Lane(*row)
            if lane.paused_at is not None:  # since the look that found something due
                continue
            lane.claimed_at = now
            if lane.stop_reason:
                self._cancel_waiting(lane)
            lane.max_in_flight = lane.max_in_flight or self._cap(lane.webhook_id)
            lane.quota = share
            if lane.pace:
                allowance = lane.pace.allowance(now)
                lane.quota = min(share, allowance)
                lane.withholds_notices = allowance < 2
            if lane.quota:
                lanes[lane.webhook_id] = lane
            elif lane.pace:
                self._hold_back(lane.webhook_id, lane.pace, now)
        return lanes

    def _move_paces(self, lanes: Mapping[str, Lane], picks: Sequence[Pick], now: datetime) -> None:
        """Count what was just claimed against the rate limits, and note which of them are used up."""
        numbers = Counter(pick.webhook_id for pick in picks if pick.lost_since is None)
        for lane in lanes.values():
            if lane.pace is None:
                continue
            pace = lane.pace.after(numbers[lane.webhook_id], now)
            Webhook.objects.using(self._using).filter(pk=lane.webhook_id).update(next_slot_at=pace.next_slot_at)
            if not pace.allowance(now) or (lane.withholds_notices and not numbers[lane.webhook_id]):
                self._hold_back(lane.webhook_id, pace, now)

    def _hold_back(self, webhook_id: str, pace: Pace, now: datetime) -> None:
        """Leave a webhook alone until its rate limit has room for some; not for long, because limits are changed."""
        self._slots[webhook_id] = now + min(max(pace.next_slot_at - now, PACED_FOR), PACED_FOR_AT_MOST)

    def _cancel_waiting(self, lane: Lane) -> None:
        """Cancel what was queued while the webhook was being stopped."""
        waiting = Delivery.objects.using(self._using).filter(webhook=lane.webhook_id).waiting()
        if lane.stop_reason == "webhook_failed":
            waiting = waiting.except_tests()
        waiting.cancel(lane.stop_reason)

    def _drop_expired(self, picks: list[Pick], now: datetime) -> list[Pick]:
        """Cancel what may not be sent any more."""
        expired = {pick for pick in picks if pick.lost_since is None and pick.expires_at and pick.expires_at <= now}
        self._cancel(expired, "expired")
        return [pick for pick in picks if pick not in expired]

    def _claims(self, picks: Sequence[Pick], lanes: Mapping[str, Lane]) -> list[Claim]:
        event_ids = {pick.event_id for pick in picks if pick.event_id is not None}
        found: dict[str | None, tuple[str, bytes]] = {None: (VERIFICATION_TYPE, b"")}
        if event_ids:
            found.update(self._statements.events(event_ids))
        self._cancel([pick for pick in picks if pick.event_id not in found], "event_deleted")
        return [Claim(pick, lanes[pick.webhook_id], *found[pick.event_id]) for pick in picks if pick.event_id in found]

    def _cancel(self, picks: Collection[Pick], reason: str) -> None:
        """Cancel what was picked; an attempt that was only counted by its claim is not made."""
        if picks:
            new = self._deliveries(pick.delivery_id for pick in picks if pick.lost_since is None)
            new.update(attempt_count=F("attempt_count") - 1)
            self._deliveries(pick.delivery_id for pick in picks).pending().cancel(reason)

    def _deliveries(self, ids: Any) -> Any:
        return Delivery.objects.using(self._using).filter(pk__in=list(ids))
