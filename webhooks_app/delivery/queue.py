"""The queue of deliveries, with a lane for each webhook: claiming due deliveries and releasing unsent ones.

A lane's row is its lock. A claiming worker holds it during the transaction, so that workers together do not exceed the
webhook's limit. Apart from that, only cancellations and changes of ordered deliveries lock it. No lock outlives its
transaction: between claim and recording, a lease protects the delivery. A late worker cannot record, because the worker
and the attempt number identify a claim, and every end of a claim changes one of them.
"""

from __future__ import annotations

import logging
import math
import secrets
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from operator import itemgetter
from types import MappingProxyType
from typing import Any

from django.db.models import Min

from ..database.clock import Clock
from ..database.sql import concerns_rows, kind_of, writing
from ..models import Delivery, QueueEntry, QueueLane, Webhook
from ..models.hold import is_upcoming
from ..models.queue import ENTRIES_AT_A_TIME
from ..models.status import stop_reason
from .claim import MAX_LANES, Claim, Claimed, ClaimRequest, ClaimTerms, DueWebhook, Lane
from .slots import Slots
from .sql import sql_for

logger = logging.getLogger("webhooks_app.delivery")

LOST_AGAIN_AFTER = timedelta(seconds=5)
LOOK_AT_LEAST_EVERY_SECONDS = 0.05
NAMED_ROOM = 16
"""Deliveries of each webhook that a notification lets a worker claim at once. A look follows if there are more."""

MANY = 64
"""Size of a claim above which its webhooks are assumed to have more due deliveries."""

PACED_FOR, PACED_FOR_AT_MOST = timedelta(seconds=0.05), timedelta(seconds=5)
"""How long a webhook at its rate limit is skipped, so that its next deliveries are claimed in batches."""

ASK_AGAIN_AFTER_SECONDS = (0.0, 5.0)
"""When to look for the claims of a call that failed. A server may commit it after the connection has failed."""

PARKINGS_TO_A_LOOK = 3
"""Consecutive claims with only blocked deliveries, after which other webhooks have their turn."""

LOOK_FOR_LOST_EVERY_SECONDS = 1.0
"""Interval of searches for lost claims of webhooks without free slots. A dead worker makes one due at once."""

PUBLISH_AFTER_SECONDS = 0.1
"""How long other workers may see too many claims of a webhook. This is safe, but delays them."""


UNSIGNED_FOR, UNSIGNED_FOR_AT_MOST = timedelta(seconds=5), timedelta(minutes=5)
"""How long a worker skips a webhook with unreadable keys or rows. It doubles each time."""


class Queue:
    """The queue as used by one worker with its slots."""

    def __init__(self, *, using: str, clock: Clock, lease: timedelta, slots: Slots, worker: int | None = None) -> None:
        self._using = using
        self._sql = sql_for(using)
        self._clock = clock
        self._lease = lease
        self.slots = slots
        self.worker = secrets.randbits(62) if worker is None else worker
        self._published: dict[str, int] = {}
        self._publish_at = math.inf
        self._last_webhook_id: str | None = None
        self._paced: dict[str, datetime] = {}
        self._unsigned: dict[str, tuple[datetime, timedelta]] = {}
        """Webhooks with keys that this worker cannot read: the end and the length of the time for skipping them."""
        self._unacknowledged: list[tuple[datetime, float]] = []
        """The times of failed claims, with the monotonic times at which to look for what they committed."""
        self.due_soon: list[datetime] = []
        """Due times of new deliveries that the last look left, because they are not yet due by the worker's clock."""
        self._nearly_due: dict[str, datetime] = {}
        """The same by webhook, during a look. PostgreSQL claims them if they are due by its own clock."""
        self.left_behind = False
        """Whether the last claims may have left due deliveries, for lack of slots."""
        self.is_full = False
        """Whether the last claim, lost claims included, reached its limit. A pause would not make the next larger."""
        self._busy: list[str] = []
        self._with_lost, self._is_named = True, False
        self._looked_at = -math.inf
        self._without_slot: list[str] = []
        """Webhooks of the last look of which nothing was claimed: they are paused, not active, at their limit or have
        no free slot. Their lost claims are claimed."""
        self._look_for_lost_at = -math.inf

    @property
    def look_again_at(self) -> datetime | None:
        """When to look again for deliveries that the last look had to leave; None if it left none.

        A webhook whose rate limit is used up may be given something again, a slow one has its turn, or what is due soon
        is due.
        """
        moments = [*self._paced.values(), *self.due_soon]
        return min([*moments, self.slots.slow_again_at] if self.slots.slow_again_at else moments, default=None)

    def claim(self, limit: int, *, with_lost: bool = True) -> list[Claim]:
        """Claim at most ``limit`` due deliveries, evenly from the webhooks with some.

        The claims are within the limits of each webhook, over all workers. The result is empty only if no webhook has a
        claimable delivery. Lost claims, which ``with_lost`` includes, are for recording only.
        """
        self._with_lost, self._is_named = with_lost, False
        self._without_slot = []
        self.due_soon = []
        self.left_behind = False
        self._busy = [pk for pk in self._busy if not self._is_unsigned(pk)]
        seeks_lost = with_lost and self._clock.monotonic() >= self._look_for_lost_at
        claims = self._claim_from(self._busy, limit) if self._may_skip_look() and not seeks_lost else []
        is_partial = bool(claims)  # other webhooks may have due deliveries too
        began_after = self._last_webhook_id
        while not claims:
            webhook_ids = self._webhooks_in_turn(limit)
            claims = self._claim_from(webhook_ids, limit) if webhook_ids else []
            served = {claim.webhook_id for claim in claims}
            self._without_slot += [pk for pk in webhook_ids if pk not in served]  # some are at their limit
            self.due_soon += [at for pk, at in self._nearly_due.items() if pk not in served]
            has_gone_round = self._last_webhook_id is None
            if has_gone_round and began_after is None:
                break
            if has_gone_round:
                began_after = None
        self._busy = list({claim.webhook_id: None for claim in claims}) if len(claims) >= MANY else []
        self.left_behind |= is_partial or self._last_webhook_id is not None
        self.is_full = len(claims) >= limit
        # From the webhooks of a look. They need no room.
        return [*claims, *self._claim_lost()] if seeks_lost else claims

    def look_for_lost(self) -> None:
        """Include lost claims of all webhooks in the next claim, because a worker is dead."""
        self._look_for_lost_at = -math.inf

    def claim_of(
        self, webhook_ids: Iterable[str], limit: int, *, due_from: Mapping[str, datetime] = MappingProxyType({})
    ) -> list[Claim]:
        """Claim due deliveries of these webhooks, at most ``limit`` of them, without a look."""
        self._with_lost, self._is_named = False, True
        wanted = [pk for pk in dict.fromkeys(webhook_ids) if not self._is_left_alone(pk)]
        self._learn_of(wanted)
        sendable = self._with_room(wanted)
        self.left_behind |= len(sendable) > limit
        # What a webhook may claim is left out of the rooms of the others, even if it has only one delivery.
        own_limit = min(limit, NAMED_ROOM * len(sendable))
        claims = self._claim_from(sendable[:limit], own_limit, due_from)
        self.is_full = bool(claims) and len(claims) >= own_limit
        return claims

    def release(self, claims: Sequence[Claim], due_at: datetime | None = None) -> None:
        """Release unsent claims, due at ``due_at`` or as before. The attempt does not count."""
        groups: dict[tuple[int, datetime], list[str]] = defaultdict(list)
        for claim in claims:
            groups[claim.number, claim.lane.claimed_at].append(claim.delivery_id)
        for (number, claimed_at), ids in groups.items():
            # With another worker, number or time, the claim has ended and another one may exist.
            self._sql.release(ids, self.worker, number, claimed_at, due_at)
        self.forget(claims)

    def release_unacknowledged(self) -> bool:
        """Release the claims of failed calls that were committed nevertheless. Return True if the database was queried.

        Only this worker knows that nothing was sent for them. If it ends before, the attempts count.
        """
        if self.seconds_to_release():
            return False
        claimed_at = self._unacknowledged[0][0]
        entries = QueueEntry.objects.using(self._using).filter(worker=self.worker, claimed_at=claimed_at)
        rows = entries.order_by().values_list("pk", "attempt", "webhook")
        found = [row for row in rows if not self.slots.is_open(row[0], row[1])]
        for number in {number for _, number, _ in found}:
            self._sql.release([pk for pk, attempt, _ in found if attempt == number], self.worker, number, claimed_at)
        for webhook_id in {webhook_id for _, _, webhook_id in found}:
            self._published[webhook_id] = self.slots.held_by(webhook_id) + len(found)
        self.forget(())
        del self._unacknowledged[0]
        return True

    def seconds_to_release(self) -> float:
        """Return the seconds until ``release_unacknowledged`` has something to do."""
        if not self._unacknowledged:
            return math.inf
        self._unacknowledged.sort(key=itemgetter(1))
        return max(0.0, self._unacknowledged[0][1] - self._clock.monotonic())

    def hold_unsigned(self, claims: Sequence[Claim]) -> None:
        """Release deliveries that this worker cannot sign, and skip their webhooks for a growing time."""
        for webhook_id in {claim.webhook_id for claim in claims}:
            if until := self._skip(webhook_id):
                QueueLane.objects.using(self._using).filter(pk=webhook_id).update(unsigned_until=until)
        self.release(claims)

    def _skip(self, webhook_id: str) -> datetime | None:
        """Skip a webhook for a growing time. Return its end, or None if it is skipped already."""
        now = self._clock()
        forgotten = now - UNSIGNED_FOR_AT_MOST
        self._unsigned = {pk: (until, span) for pk, (until, span) in self._unsigned.items() if until > forgotten}
        until, held_for = self._unsigned.get(webhook_id, (now, UNSIGNED_FOR / 2))
        if until > now:
            return None
        held_for = min(held_for * 2, UNSIGNED_FOR_AT_MOST)
        self._unsigned[webhook_id] = now + held_for, held_for
        return now + held_for

    def _skip_unreadable(self, webhook_id: str, error: Exception) -> None:
        """Skip a webhook with an unreadable row, so that the others continue. Reset its shared state."""
        text = "The deliveries of webhook %s are skipped, because a row of it cannot be used: %s."
        logger.error(text, webhook_id, kind_of(error), extra={"webhook_id": webhook_id})
        QueueLane.objects.using(self._using).filter(pk=webhook_id).update(in_flight={}, next_slot_at=None)
        self._skip(webhook_id)

    def _is_left_alone(self, webhook_id: str) -> bool:
        return webhook_id in self._paced or self._is_unsigned(webhook_id)

    def _is_unsigned(self, webhook_id: str) -> bool:
        return webhook_id in self._unsigned and self._unsigned[webhook_id][0] > self._clock()

    def forget(self, claims: Iterable[Claim]) -> None:
        """Free the slots of claims that were recorded or released."""
        self.slots.give_back(claims)
        if self._published and self._publish_at == math.inf:
            self._publish_at = self._clock.monotonic() + PUBLISH_AFTER_SECONDS

    def publish(self, *, at_once: bool = False) -> None:
        """Store reduced numbers of deliveries in flight, and changed paces, for the other workers."""
        if not at_once and self._clock.monotonic() < self._publish_at:
            return
        self._publish_at = math.inf
        paces = self.slots.changed_paces()
        stale = {pk for pk, number in self._published.items() if self.slots.held_by(pk) < number}
        numbers = {pk: (self.slots.held_by(pk), paces.get(pk)) for pk in stale | paces.keys()}
        if not numbers:
            return
        self._sql.publish(self.worker, numbers, self._clock() + self._lease)
        self.slots.stored(paces)
        for webhook_id, (number, _) in numbers.items():
            if number:
                self._published[webhook_id] = number
            else:
                self._published.pop(webhook_id, None)

    def seconds_to_publish(self) -> float:
        return max(0.0, self._publish_at - self._clock.monotonic())

    def next_due_at(self) -> datetime | None:
        """Return the due time of the next unclaimed delivery, or None without one. It may be past."""
        unsigned = [webhook_id for webhook_id in self._unsigned if self._is_unsigned(webhook_id)]
        upcoming = QueueEntry.objects.using(self._using).filter(is_upcoming()).exclude(webhook__in=unsigned)
        earliest: datetime | None = upcoming.aggregate(at=Min("due_at"))["at"]
        return earliest

    def _may_skip_look(self) -> bool:
        """Return True if the next claim should reuse the webhooks of the last large one, to save a look."""
        return bool(self._busy) and self._clock.monotonic() - self._looked_at < LOOK_AT_LEAST_EVERY_SECONDS

    def _webhooks_in_turn(self, limit: int) -> list[str]:
        """Return webhooks with due deliveries, continuing after those of the last call."""
        now, latest = self._clock(), self._clock.latest()
        self._looked_at = self._clock.monotonic()
        self.slots.forget_unused(self._looked_at)
        self._paced = {webhook_id: at for webhook_id, at in self._paced.items() if at > now}
        page = self._sql.due_webhooks(now, after=self._last_webhook_id)
        self._nearly_due = {
            found.webhook_id: found.due_at for found in page if found.due_at and now < found.due_at <= latest
        }
        self._cancel_stopped(page)
        self.slots.refresh((found.webhook_id, found.is_fast) for found in page)
        due = [found for found in page if found.due_at and found.due_at <= latest]
        due = [found for found in due if not self._is_left_alone(found.webhook_id)]
        self._learn((found.webhook_id, found.owner_id, found.has_lane, found.is_fast) for found in due)
        sendable = self._with_room([found.webhook_id for found in due])
        read_completely = {found.webhook_id for found in page if found.is_active} & set(sendable)
        self._without_slot += [found.webhook_id for found in page if found.webhook_id not in read_completely]
        if len(sendable) > limit:
            sendable = sendable[:limit]
            self._last_webhook_id = sendable[-1]
        else:
            self._last_webhook_id = page[-1].webhook_id if len(page) == MAX_LANES else None
        return sendable

    def _with_room(self, webhook_ids: Sequence[str]) -> list[str]:
        found = self.slots.with_room(webhook_ids)
        self.left_behind |= len(found) < len(webhook_ids)
        return found

    def _learn_of(self, webhook_ids: Iterable[str]) -> None:
        """Load the webhooks that no look has found yet."""
        if new := [webhook_id for webhook_id in webhook_ids if not self.slots.is_known(webhook_id)]:
            webhooks = Webhook.objects.using(self._using).filter(pk__in=new).order_by()
            self._learn(webhooks.values_list("pk", "owner_id", "lane", "lane__is_fast"))

    def _learn(self, webhooks: Iterable[tuple[str, Any, Any, bool | None]]) -> None:
        """Prepare for claims from new webhooks, given as id, owner, lane (or None) and pace."""
        new = [webhook for webhook in webhooks if not self.slots.is_known(webhook[0])]
        if missing := [webhook_id for webhook_id, _, lane, _ in new if not lane]:
            QueueLane.objects.using(self._using).ensure(missing)
        for webhook_id, owner_id, _, is_fast in new:
            self.slots.learn(webhook_id, owner_id, is_fast)

    def _claim_from(
        self, webhook_ids: Sequence[str], limit: int, due_from: Mapping[str, datetime] = MappingProxyType({})
    ) -> list[Claim]:
        """Claim deliveries, and cancel expired ones. Repeat if all of them had expired.

        Blocked deliveries are parked. The next look is due at once if there may be more of them.
        """
        parkings = 0
        while True:
            now = self._clock()
            terms = self._terms(now)
            asks = [ask._replace(due_from=due_from.get(ask[0])) for ask in self.slots.asks(webhook_ids, limit)]
            self.left_behind |= len(asks) < len(webhook_ids)
            if not asks:
                return []
            claimed = self._claim_readable(asks, terms)
            claims = self._sendable(claimed.claims, now)
            self._count(claims, claimed, asks, terms)
            if len(claims) < len(claimed.claims):
                self.forget(())  # other workers count the cancelled ones until the number is published
            parkings += bool(claimed.parked)
            if claimed.parked and parkings >= PARKINGS_TO_A_LOOK:
                self.due_soon.append(now)
            if claims or not (claimed.claims or claimed.parked) or parkings >= PARKINGS_TO_A_LOOK:
                return claims

    def _claim_readable(self, asks: Sequence[ClaimRequest], terms: ClaimTerms) -> Claimed:
        """Claim, each webhook separately if a row of one of them cannot be used."""
        try:
            return self._sql.claim(asks, terms)
        except Exception as error:
            self._unacknowledged += [(terms.now, self._clock.monotonic() + after) for after in ASK_AGAIN_AFTER_SECONDS]
            if not concerns_rows(error):
                raise
            if len(asks) == 1:
                self._skip_unreadable(asks[0].webhook_id, error)
                return Claimed([], [])
        parts = [self._claim_readable([ask], terms) for ask in asks]
        return Claimed(
            [lane for part in parts for lane in part.lanes],
            [claim for part in parts for claim in part.claims],
            sum(part.parked for part in parts),
        )

    def _claim_lost(self) -> list[Claim]:
        """Claim the lost claims that other claims do not include. They are only recorded, so they need no slot."""
        self._look_for_lost_at = self._clock.monotonic() + LOOK_FOR_LOST_EVERY_SECONDS
        now = self._clock()
        claims: list[Claim] = []
        for start in range(0, len(self._without_slot), MAX_LANES):
            found = self._sql.lost_claims(self._without_slot[start : start + MAX_LANES], now)
            asks = [ClaimRequest(pk, 0, 0, number, is_unknown=False, lost_only=True) for pk, number in found.items()]
            if asks:
                claimed = self._claim_readable(asks, self._terms(now))
                claims += self._sendable(claimed.claims, now)
        return claims

    def _terms(self, now: datetime) -> ClaimTerms:
        return ClaimTerms(self.worker, now, now + self._lease, now + LOST_AGAIN_AFTER if self._with_lost else None)

    def _count(
        self, claims: Sequence[Claim], claimed: Claimed, asks: Sequence[ClaimRequest], terms: ClaimTerms
    ) -> None:
        """Record the deliveries in flight and the limits that were reached."""
        now = terms.now
        new = Counter(claim.webhook_id for claim in claimed.claims if claim.lost_since is None)
        for webhook_id, number in new.items():
            self._published[webhook_id] = self.slots.held_by(webhook_id) + number
        self.slots.take([claim for claim in claims if claim.lost_since is None])
        self.left_behind |= len(claimed.lanes) < len(asks)  # another worker holds some
        asked = {ask.webhook_id: ask for ask in asks}
        for lane in claimed.lanes:
            webhook_id = lane.webhook_id
            ask, limit = asked[webhook_id], lane.max_in_flight or self.slots.cap
            # Results recorded during the claim have freed slots that it did not use.
            self.left_behind |= new[webhook_id] >= ask.room or ask.own + new[webhook_id] >= limit
            # Requests of other workers count towards a low limit too.
            self.left_behind |= self._is_named and limit < self.slots.cap and not new[webhook_id]
            if lane.limit and (
                not lane.limit.allowance(now) or (lane.withholds_notices(now) and not new[lane.webhook_id])
            ):
                self._hold_back(lane, now)

    def _hold_back(self, lane: Lane, now: datetime) -> None:
        """Skip a webhook until its rate limit permits several deliveries, at most briefly: limits can change."""
        assert lane.limit
        self._paced[lane.webhook_id] = now + min(max(lane.limit.next_slot_at - now, PACED_FOR), PACED_FOR_AT_MOST)

    def _cancel_stopped(self, page: Sequence[DueWebhook]) -> None:
        """Cancel at most a page of the deliveries of stopped webhooks. If more may remain, a look is due at once."""
        left = ENTRIES_AT_A_TIME
        for found in page:
            if found.is_stopped and left and not self._is_unsigned(found.webhook_id):
                left -= self._cancel_readable(found.webhook_id, left)
        if not left:
            self.due_soon.append(self._clock())

    def _cancel_readable(self, webhook_id: str, limit: int) -> int:
        try:
            return self._cancel_first(webhook_id, limit)
        except Exception as error:
            if not concerns_rows(error):
                raise
            self._skip_unreadable(webhook_id, error)
            return 0

    def _cancel_first(self, webhook_id: str, limit: int) -> int:
        """Cancel the first pending deliveries of a webhook if it is still stopped. Return their number.

        A webhook that another transaction holds is skipped.
        """
        with writing(self._using, Webhook):
            webhook = Webhook.objects.using(self._using).filter(pk=webhook_id).order_by().free().first()
            is_stopped = webhook is not None and stop_reason(Delivery.Kind.EVENT, webhook)
            if webhook is None or not is_stopped or not QueueLane.objects.using(self._using).lock_free(webhook_id):
                return 0
            return Delivery.objects.using(self._using).cancel_stopped(webhook, limit=limit)

    def _sendable(self, claims: list[Claim], now: datetime) -> list[Claim]:
        """Cancel expired deliveries, and those whose event is missing. Return the others."""
        expired = {
            claim.delivery_id
            for claim in claims
            if claim.expires_at and claim.expires_at <= now and claim.lost_since is None
        }
        gone = {
            claim.delivery_id
            for claim in claims
            if not claim.event_type or (claim.event_id is None and claim.kind != Delivery.Kind.VERIFICATION)
        } - expired
        if not expired and not gone:
            return claims
        self._cancel(expired, "expired")
        self._cancel(gone, "event_deleted")
        return [claim for claim in claims if claim.delivery_id not in expired | gone]

    def _cancel(self, ids: Collection[str], reason: str) -> None:
        if ids:
            entries = QueueEntry.objects.using(self._using).filter(pk__in=ids)
            Delivery.objects.using(self._using).filter(pk__in=ids).cancel(reason, among=entries)
