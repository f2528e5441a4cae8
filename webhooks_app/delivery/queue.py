"""The queue of deliveries, with a lane for each webhook: the database's answer to a look, and the end of unsent claims.

A lane's row is its lock. A claiming worker holds it during the transaction, so that workers together do not exceed the
webhook's limit. Apart from that, only cancellations and changes of ordered deliveries lock it. No lock outlives its
transaction: between claim and recording, a lease protects the delivery. A late worker cannot record, because the worker
and the attempt number identify a claim, and every end of a claim changes one of them.
"""

from __future__ import annotations

import logging
import secrets
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import reduce
from typing import Any, NamedTuple

from django.db.models import Min

from ..database.sql import concerns_rows, kind_of, writing
from ..models import Delivery, QueueEntry, QueueLane, Webhook
from ..models.hold import is_upcoming
from ..models.queue_entry import ENTRIES_AT_A_TIME
from ..models.status import stop_reason
from .claim import MAX_LANES, Claim, Claimed, ClaimRequest, ClaimTerms, DueWebhook
from .schedule import Found, Look
from .slots import Slots
from .sql import sql_for

logger = logging.getLogger("webhooks_app.delivery")

LOST_AGAIN_AFTER = timedelta(seconds=5)
NAMED_ROOM = 16
"""Deliveries of each webhook that a notification lets a worker claim at once. A look follows if there are more."""

PARKINGS_TO_A_LOOK = 3
"""Consecutive claims with only blocked deliveries, after which other webhooks have their turn."""

NOTHING_FOUND = Found()


class FoundPage(NamedTuple):
    """The webhooks of one page of a look."""

    webhook_ids: Sequence[str]
    """Those to claim from."""
    without_slot: Sequence[str]
    """Those that are paused, not active, at their limit or have no free slot. Only their lost claims are claimed."""
    nearly_due: Mapping[str, datetime]
    """Those with a delivery that is not yet due by the worker's clock. PostgreSQL claims it if it is by its own."""
    found: Found
    """What is known before a claim, with the end of the page."""


class Queue:
    """The queue as used by one worker. It reads and prepares the worker's slots, and remembers nothing of a call."""

    def __init__(self, *, using: str, lease: timedelta, slots: Slots, worker: int | None = None) -> None:
        self._using = using
        self._sql = sql_for(using)
        self._lease = lease
        self._slots = slots
        self.worker = secrets.randbits(62) if worker is None else worker

    def look(self, look: Look) -> Found:
        """Claim due deliveries, evenly from the webhooks with some.

        The claims are within the limits of each webhook, over all workers. A look at all webhooks finds nothing only if
        none of them has a claimable delivery.
        """
        if look.named:
            return self._claim_named(look)
        found = self._claim_from(look.busy, look.limit, look)._replace(page_end=look.page_end)
        without_slot: list[str] = []
        if found.claims or found.lost:
            found = found._replace(left=True)  # other webhooks may have due deliveries too
        else:
            found = self._page_through(look, found, without_slot)
        found = found._replace(
            left=found.left or found.page_end is not None, is_full=len(found.claims) + len(found.lost) >= look.limit
        )
        return _joined(found, self._claim_lost(without_slot, look)) if look.seeks_lost else found

    def release(self, claims: Sequence[Claim], due_at: datetime | None = None) -> None:
        """Release unsent claims, due at ``due_at`` or as before. The attempt does not count."""
        groups: dict[tuple[int, datetime], list[str]] = defaultdict(list)
        for claim in claims:
            groups[claim.number, claim.lane.claimed_at].append(claim.delivery_id)
        for (number, claimed_at), ids in groups.items():
            # With another worker, number or time, the claim has ended and another one may exist.
            self._sql.release(ids, self.worker, number, claimed_at, due_at)

    def release_unacknowledged(self, claimed_at: datetime) -> None:
        """Release the claims of a failed look whose commit was not acknowledged, but took place.

        The schedule asks for them at once and again after 5 s, because a server may commit late. Only this worker knows
        that nothing was sent for them, so they return as they were. If it ends before, they are lost claims, and the
        attempts count.
        """
        entries = QueueEntry.objects.using(self._using).filter(worker=self.worker, claimed_at=claimed_at)
        rows = entries.order_by().values_list("pk", "attempt", "webhook")
        found = [row for row in rows if not self._slots.is_open(row[0], row[1])]
        for number in {number for _, number, _ in found}:
            self._sql.release([pk for pk, attempt, _ in found if attempt == number], self.worker, number, claimed_at)
        numbers = Counter(webhook_id for _, _, webhook_id in found)
        self._slots.counted({pk: self._slots.held_by(pk) + number for pk, number in numbers.items()})

    def leave_to_others(self, skipped: Mapping[str, datetime]) -> None:
        """Store for other workers until when this one skips webhooks because it cannot sign for them."""
        for webhook_id, until in skipped.items():
            QueueLane.objects.using(self._using).filter(pk=webhook_id).update(unsigned_until=until)

    def publish(self, now: datetime) -> bool:
        """Store reduced numbers of deliveries in flight, and changed paces, for the other workers.

        Return True if there were any.
        """
        if numbers := self._slots.to_publish():
            self._sql.publish(self.worker, numbers, now + self._lease)
            self._slots.published(numbers)
        return bool(numbers)

    def next_due_at(self, skipped: Collection[str]) -> datetime | None:
        """Return the due time of the next unclaimed delivery, or None without one. It may be past."""
        upcoming = QueueEntry.objects.using(self._using).filter(is_upcoming()).exclude(webhook__in=skipped)
        earliest: datetime | None = upcoming.aggregate(at=Min("due_at"))["at"]
        return earliest

    def _claim_named(self, look: Look) -> Found:
        """Claim from the webhooks of a notification, without a search for others."""
        wanted = [pk for pk in look.named if pk not in look.skipped]
        self._learn_of(wanted)
        with_room, slow_again_at = self._slots.with_room(wanted, look.now.monotonic)
        # What a webhook may claim is left out of the rooms of the others, even if it has only one delivery.
        limit = min(look.limit, NAMED_ROOM * len(with_room))
        found = self._claim_from(with_room[: look.limit], limit, look)
        number = len(found.claims) + len(found.lost)
        return found._replace(
            left=found.left or len(with_room) < len(wanted) or len(with_room) > look.limit,
            is_full=0 < limit <= number,
            page_end=look.page_end,
            slow_again_at=slow_again_at,
        )

    def _page_through(self, look: Look, found: Found, without_slot: list[str]) -> Found:
        """Claim from the first page with claimable deliveries. Once around, pages before the first are read too.

        Add the webhooks of the pages that nothing was claimed from to ``without_slot``.
        """
        began_after = found.page_end
        while True:
            page = self._page(look, found.page_end)
            claimed = self._claim_from(page.webhook_ids, look.limit, look)
            served = {claim.webhook_id for claim in (*claimed.claims, *claimed.lost)}
            without_slot += page.without_slot
            without_slot += [pk for pk in page.webhook_ids if pk not in served]  # some are at their limit
            nearly_due = [at for pk, at in page.nearly_due.items() if pk not in served]
            found = _joined(found, _joined(page.found, claimed))._replace(page_end=page.found.page_end)
            if nearly_due:
                found = found._replace(moments=[*found.moments, *nearly_due])
            if served or (found.page_end is None and began_after is None):
                return found
            if found.page_end is None:
                began_after = None

    def _page(self, look: Look, after: str | None) -> FoundPage:
        """Read the webhooks with due deliveries after this one."""
        now = look.now.at
        self._slots.forget_unused(look.now.monotonic)
        page = self._sql.due_webhooks(now, after=after)
        cancelled = _cancel_stopped(self._using, page, look)
        self._slots.refresh((found.webhook_id, found.is_fast) for found in page)
        due = [found for found in page if found.due_at and found.due_at <= look.latest]
        if look.skipped:
            due = [found for found in due if found.webhook_id not in look.skipped]
        self._learn((found.webhook_id, found.owner_id, found.has_lane, found.is_fast) for found in due)
        with_room, slow_again_at = self._slots.with_room([found.webhook_id for found in due], look.now.monotonic)
        read_completely = {found.webhook_id for found in page if found.is_active} & set(with_room)
        page_end = page[-1].webhook_id if len(page) == MAX_LANES else None
        left = len(with_room) < len(due)
        if len(with_room) > look.limit:
            with_room = with_room[: look.limit]
            page_end = with_room[-1]
        return FoundPage(
            with_room,
            [found.webhook_id for found in page if found.webhook_id not in read_completely],
            {found.webhook_id: found.due_at for found in page if found.due_at and now < found.due_at <= look.latest},
            cancelled._replace(
                left=left,
                page_end=page_end,
                has_paged=True,
                next_at=min((found.due_at for found in page if found.due_at and found.due_at > now), default=None),
                slow_again_at=slow_again_at,
            ),
        )

    def _learn_of(self, webhook_ids: Iterable[str]) -> None:
        """Load the webhooks that no look has found yet."""
        if new := [webhook_id for webhook_id in webhook_ids if not self._slots.is_known(webhook_id)]:
            webhooks = Webhook.objects.using(self._using).filter(pk__in=new).order_by()
            self._learn(webhooks.values_list("pk", "owner_id", "lane", "lane__is_fast"))

    def _learn(self, webhooks: Iterable[tuple[str, Any, Any, bool | None]]) -> None:
        """Prepare for claims from new webhooks, given as id, owner, lane (or None) and pace."""
        new = [webhook for webhook in webhooks if not self._slots.is_known(webhook[0])]
        if missing := [webhook_id for webhook_id, _, lane, _ in new if not lane]:
            QueueLane.objects.using(self._using).ensure(missing)
        for webhook_id, owner_id, _, is_fast in new:
            self._slots.learn(webhook_id, owner_id, is_fast)

    def _claim_from(self, webhook_ids: Sequence[str], limit: int, look: Look) -> Found:
        """Claim deliveries, and cancel expired ones. Repeat if all of them had expired.

        Blocked deliveries are parked. The next look is due at once if there may be more of them.
        """
        found, parkings = NOTHING_FOUND, 0
        while webhook_ids and (asks := self._slots.asks(webhook_ids, limit, look.now.monotonic)):
            if look.named:
                asks = [ask._replace(due_from=look.named[ask.webhook_id]) for ask in asks]
            claimed, problems = self._claim_readable(asks, self._terms(look))
            new = Counter([claim.webhook_id for claim in claimed.claims if claim.lost_since is None])
            self._slots.counted(
                {ask.webhook_id: ask.own + new[ask.webhook_id] for ask in asks if ask.webhook_id in new}
            )
            kept = _sendable(self._using, claimed.claims, look.now.at)
            found = _joined(found, _joined(problems, self._found(kept, claimed, asks, new, look)))
            found = found._replace(
                left=found.left or len(asks) < len(webhook_ids),
                has_cancelled=found.has_cancelled or len(kept) < len(claimed.claims),
            )
            parkings += bool(claimed.parked)
            if claimed.parked and parkings >= PARKINGS_TO_A_LOOK:
                return found._replace(moments=[*found.moments, look.now.at])
            if kept or not (claimed.claims or claimed.parked):
                return found
        return found._replace(left=found.left or bool(webhook_ids))

    def _claim_readable(self, asks: Sequence[ClaimRequest], terms: ClaimTerms) -> tuple[Claimed, Found]:
        """Claim, each webhook separately if a row of one of them cannot be used. Also return what went wrong."""
        try:
            return self._sql.claim(asks, terms), NOTHING_FOUND
        except Exception as error:
            if not concerns_rows(error):
                raise
            failed = Found(may_be_unacknowledged=True)
            if len(asks) == 1:
                _report_unreadable(self._using, asks[0].webhook_id, error)
                return Claimed([], []), failed._replace(unreadable=[asks[0].webhook_id])
        parts = [self._claim_readable([ask], terms) for ask in asks]
        claimed = Claimed(
            [lane for part, _ in parts for lane in part.lanes],
            [claim for part, _ in parts for claim in part.claims],
            sum(part.parked for part, _ in parts),
        )
        return claimed, reduce(_joined, (problems for _, problems in parts), failed)

    def _claim_lost(self, webhook_ids: Sequence[str], look: Look) -> Found:
        """Claim the lost claims that other claims do not include. They are only recorded, so they need no slot."""
        answer = NOTHING_FOUND
        for start in range(0, len(webhook_ids), MAX_LANES):
            found = self._sql.lost_claims(webhook_ids[start : start + MAX_LANES], look.now.at)
            asks = [ClaimRequest(pk, 0, 0, number, is_unknown=False, lost_only=True) for pk, number in found.items()]
            if asks:
                claimed, problems = self._claim_readable(asks, self._terms(look))
                answer = _joined(answer, problems._replace(lost=_sendable(self._using, claimed.claims, look.now.at)))
        return answer

    def _terms(self, look: Look) -> ClaimTerms:
        now = look.now.at
        return ClaimTerms(self.worker, now, now + self._lease, now + LOST_AGAIN_AFTER if look.with_lost else None)

    def _found(
        self,
        claims: Sequence[Claim],
        claimed: Claimed,
        asks: Sequence[ClaimRequest],
        new: Mapping[str, int],
        look: Look,
    ) -> Found:
        """Return the claims, and the limits that were reached. ``new`` is the number of new claims by webhook."""
        now = look.now.at
        left = len(claimed.lanes) < len(asks)  # another worker holds some
        asked = {ask.webhook_id: ask for ask in asks}
        paced: dict[str, datetime] = {}
        for lane in claimed.lanes:
            number = new.get(lane.webhook_id, 0)
            ask = asked[lane.webhook_id]
            most = lane.most(ask)
            # Results recorded during the claim have freed slots that it did not use.
            left |= number >= ask.room or ask.own + number >= most
            if until := lane.paced_until(now, number):
                paced[lane.webhook_id] = until
            elif not number:
                # Requests of other workers count towards the limit too. A notification's deliveries are often claimed
                # by others before, so only a low limit is a reason for another look at these.
                left |= most < self._slots.cap if look.named else not claimed.parked
        lost = [claim for claim in claims if claim.lost_since is not None]
        new_claims = [claim for claim in claims if claim.lost_since is None] if lost else claims
        return Found(new_claims, lost, left, paced=paced)


def _joined(first: Found, second: Found) -> Found:
    """Return what two parts of a look found."""
    if first is NOTHING_FOUND:
        return second
    if second is NOTHING_FOUND:
        return first
    return Found(
        claims=[*first.claims, *second.claims],
        lost=[*first.lost, *second.lost],
        left=first.left or second.left,
        is_full=first.is_full or second.is_full,
        page_end=second.page_end or first.page_end,
        has_paged=first.has_paged or second.has_paged,
        moments=[*first.moments, *second.moments],
        next_at=min((at for at in (first.next_at, second.next_at) if at), default=None),
        slow_again_at=min((at for at in (first.slow_again_at, second.slow_again_at) if at is not None), default=None),
        paced={**first.paced, **second.paced},
        unreadable=[*first.unreadable, *second.unreadable],
        may_be_unacknowledged=first.may_be_unacknowledged or second.may_be_unacknowledged,
        has_cancelled=first.has_cancelled or second.has_cancelled,
    )


# What a look finds, but must not be sent.


def _sendable(using: str, claims: list[Claim], now: datetime) -> list[Claim]:
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
    _cancel(using, expired, "expired")
    _cancel(using, gone, "event_deleted")
    return [claim for claim in claims if claim.delivery_id not in expired | gone]


def _cancel_stopped(using: str, page: Sequence[DueWebhook], look: Look) -> Found:
    """Cancel at most a page of the deliveries of stopped webhooks. If more may remain, a look is due at once."""
    left, unreadable = ENTRIES_AT_A_TIME, []
    for found in page:
        if not found.is_stopped or not left or found.webhook_id in look.unreadable:
            continue
        try:
            left -= _cancel_first(using, found.webhook_id, left)
        except Exception as error:
            if not concerns_rows(error):
                raise
            _report_unreadable(using, found.webhook_id, error)
            unreadable.append(found.webhook_id)
    return Found(moments=() if left else [look.now.at], unreadable=unreadable)


def _report_unreadable(using: str, webhook_id: str, error: Exception) -> None:
    """Log that a row of a webhook cannot be used, and reset its shared state. Workers skip it for a while."""
    text = "The deliveries of webhook %s are skipped, because a row of it cannot be used: %s."
    logger.error(text, webhook_id, kind_of(error), extra={"webhook_id": webhook_id})
    QueueLane.objects.using(using).filter(pk=webhook_id).update(in_flight={}, next_slot_at=None)


def _cancel_first(using: str, webhook_id: str, limit: int) -> int:
    """Cancel the first pending deliveries of a webhook if it is still stopped. Return their number.

    A webhook that another transaction holds is skipped.
    """
    with writing(using, Webhook):
        webhook = Webhook.objects.using(using).filter(pk=webhook_id).order_by().free().first()
        is_stopped = webhook is not None and stop_reason(Delivery.Kind.EVENT, webhook)
        if webhook is None or not is_stopped or not QueueLane.objects.using(using).lock_free(webhook_id):
            return 0
        return Delivery.objects.using(using).cancel_stopped(webhook, limit=limit)


def _cancel(using: str, ids: Collection[str], reason: str) -> None:
    if ids:
        entries = QueueEntry.objects.using(using).filter(pk__in=ids)
        Delivery.objects.using(using).filter(pk__in=ids).cancel(reason, among=entries)
