"""Slots: the sharing of one worker's concurrent requests between owners, and between the webhooks of an owner.

A claim holds a slot until its result is recorded. No slot is taken back before. Owners share the window, and the
webhooks of an owner share what the owner may hold, both by the same rule:

- Half is for first slots: all slots beyond the first of each holder are at most half, and the last one goes to a
  holder without any.
- The first slots of an owner's webhooks can use all that other owners leave of the other half. Beside others, further
  slots of a webhook take only 3/8 of it. What remains is for whoever comes next.
- While the owners that hold any are more than 1/32 of the window, further slots leave a first one for each known
  webhook and 1/16 for new ones, but are never limited to less than 5/16. The last 2/16 of them are for a second slot of
  each fast webhook, and the last 1/16 for one further slot of each owner.
- Slow webhooks hold slots for long, and unknown ones may. Beside others, slow ones therefore leave the more, the more
  is held. Once half of an owner's share could be first slots, slow ones get none, and unknown ones only while a quarter
  of the share is free for those that are known to be fast.

Proof for a window W: let n owners hold slots, and E be the number of slots beyond the first of each. A further slot is
granted to an owner up to W/2 minus the further slots of all others, so E is at most W/2. Therefore at least W/2 - n
slots are free for other owners, whatever becomes of the requests. That a webhook is slow changes neither n nor E, only
what the webhook itself may take next. The same holds for the webhooks of an owner, while others leave its share as it
is.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from ..database.clock import Clock
from ..models import Delivery
from ..models.lane import FAST_SECONDS
from ..models.limits import LONG_AGO
from .claim import Claim, ClaimRequest, Finished

SHARE_OF_WINDOW = 4
"""A webhook uses at most a quarter of the window of one process: half of the half that one owner can hold."""

FURTHER_PART = 3
"""Eighths of what others leave, for further slots. These parts were chosen with
``python -m benchmarks isolation --simulate``."""

MANY_OWNERS = 32
"""While more owners than this part of the window hold slots, they leave some for each other's webhooks without any."""

BEYOND_PART = 6
"""Eighths of what other owners leave of the slots beyond the first of each webhook, less 2/16 of the window, for those
of one of many owners."""

MOST_RESERVED = 4
"""Sixteenths of all slots that slow webhooks leave beside others: one for each further slot that their owner holds, at
most this many. Of the owner's share, they leave one for each further slot of their own."""

FORGET_UNUSED_AFTER_SECONDS = 3600.0

Key = tuple[str, int]


def usual_cap(window: int, configured: int) -> int:
    """Return the maximum number of a webhook's requests in flight for a process with this window."""
    return max(1, min(configured, window // SHARE_OF_WINDOW))


def _most(total: int, further: int, *, is_sole: bool) -> int:
    """Return how many slots one holder may have, if others leave ``total`` slots and ``further`` further ones."""
    return 1 + further if is_sole else min(1 + further * FURTHER_PART // 8, total * FURTHER_PART // 8)


class OwnerSlots:
    """The slots of an owner in one worker."""

    __slots__ = ("held", "webhooks")

    def __init__(self) -> None:
        self.held = 0
        self.webhooks = 0
        """The number of its webhooks that hold any."""


class SlotHolder:
    """The state of a webhook in one worker."""

    __slots__ = ("held", "is_fast", "late", "owner", "was_used")

    def __init__(self, owner: OwnerSlots, is_fast: bool | None) -> None:
        self.owner = owner
        self.is_fast = is_fast
        """Whether its last request was fast, or None before the first."""
        self.held = 0
        self.late = 0
        """The number of held slots with requests open for longer than a fast one."""
        self.was_used = True
        """Whether it was added or had a claim since the last removal of unused webhooks."""

    @property
    def is_slow(self) -> bool:
        return self.late > 0 or self.is_fast is False


class Slots:
    """The slots of one worker. Thread-safe.

    A webhook becomes slow when a request has been open for a second, regardless of its result, and fast again by a fast
    result. An unknown webhook has one open request until its first result, over all workers.
    """

    def __init__(self, *, clock: Clock, window: int, cap: int, slow_apart: timedelta = timedelta(0)) -> None:
        self._clock = clock
        self.cap = cap
        self._slow_apart = slow_apart
        """The time between two claims from slow webhooks, where a claim keeps others waiting."""
        self.slow_again_at: datetime | None = None
        """When slow webhooks may begin requests again; None if none was left out for this reason."""
        self._slow_from = LONG_AGO
        self._lock = threading.Lock()
        self.free = self._window = max(1, window)
        self._further_free = self.free // 2
        """The number of slots that may still be held beyond the first of each owner."""
        self._beyond = 0
        """The number of slots that are held beyond the first of each webhook."""
        self._holding = 0
        """The number of owners that hold any."""
        self._owners: defaultdict[str, OwnerSlots] = defaultdict(OwnerSlots)
        self._webhooks: dict[str, SlotHolder] = {}
        self._open: dict[Key, SlotHolder] = {}
        self._late: set[Key] = set()
        self._begun: deque[tuple[float, Key]] = deque()
        self._changed: set[str] = set()
        self._forget_at = clock.monotonic() + FORGET_UNUSED_AFTER_SECONDS

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, claim: Claim) -> bool:
        return claim.key in self._open

    def is_open(self, delivery_id: str, number: int) -> bool:
        """Return True if a claim of this attempt holds a slot."""
        return (delivery_id, number) in self._open

    def held_by(self, webhook_id: str) -> int:
        """Return the number of this webhook's claims that are neither recorded nor released."""
        webhook = self._webhooks.get(webhook_id)
        return webhook.held if webhook else 0

    def is_known(self, webhook_id: str) -> bool:
        """Return True if ``learn`` was called for this webhook."""
        return webhook_id in self._webhooks

    def learn(self, webhook_id: str, owner_id: Any, is_fast: bool | None) -> None:
        """Add a webhook with its stored pace."""
        owner = str(owner_id).replace("-", "")  # a UUID may be an object, or a text with or without hyphens
        with self._lock:
            self._webhooks[webhook_id] = SlotHolder(self._owners[owner], is_fast)

    def forget_unused(self, monotonic: float) -> None:
        """Remove the webhooks without a claim for one to two hours. Their stored pace is learned again when needed."""
        if monotonic < self._forget_at:
            return
        self._forget_at = monotonic + FORGET_UNUSED_AFTER_SECONDS
        with self._lock:
            found = self._webhooks.items()
            self._webhooks = {pk: each for pk, each in found if each.was_used or each.held or pk in self._changed}
            for webhook in self._webhooks.values():
                webhook.was_used = False
            used = {webhook.owner for webhook in self._webhooks.values()}
            for owner in [name for name, slots in self._owners.items() if slots not in used]:
                del self._owners[owner]

    def refresh(self, stored: Iterable[tuple[str, bool | None]]) -> None:
        """Update the paces from the database. This worker's own changes remain until they are ``stored``.

        The stored pace is None after a change of the webhook's URL.
        """
        with self._lock:
            for webhook_id, is_fast in stored:
                if (webhook := self._webhooks.get(webhook_id)) and webhook_id not in self._changed:
                    webhook.is_fast = is_fast

    def with_room(self, webhook_ids: Iterable[str]) -> list[str]:
        """Return the webhooks that may start a request, each considered separately."""
        with self._lock:
            self._note_late()
            known = [pk for pk in webhook_ids if pk in self._webhooks]  # one may have been deleted
            found = [pk for pk in known if self._left_for(self._webhooks[pk]) > 0]
            return self._without_slow(found) if self._slow_apart else found

    def asks(self, webhook_ids: Collection[str], limit: int) -> list[ClaimRequest]:
        """Return the claims to make from these webhooks, at most ``limit`` together. Omit those without a free slot."""
        share = max(1, limit // max(1, len(webhook_ids)))
        found: list[ClaimRequest] = []
        with self._lock:
            self._note_late()
            for webhook_id in webhook_ids:
                webhook = self._webhooks[webhook_id]
                if (room := min(share, limit, self._left_for(webhook))) > 0:
                    limit -= room
                    found.append(ClaimRequest(webhook_id, webhook.held, self.cap, room, webhook.is_fast is None))
                    self._hold(webhook, room)
            for ask in found:
                self._hold(self._webhooks[ask.webhook_id], -ask.room)
        return found

    def take(self, claims: Iterable[Claim]) -> None:
        """Hold a slot for each claim."""
        numbers: defaultdict[SlotHolder, int] = defaultdict(int)
        with self._lock:
            for claim in claims:
                key = claim.delivery_id, claim.number
                if key not in self._open:
                    self._open[key] = webhook = self._webhooks[claim.webhook_id]
                    numbers[webhook] += 1
            for webhook, number in numbers.items():
                webhook.was_used = True
                self._hold(webhook, number)
            if self._slow_apart and any(webhook.is_slow for webhook in numbers):
                self._slow_from = self._clock() + self._slow_apart

    def begin(self, claim: Claim, monotonic: float) -> None:
        """Record the start of a claim's request."""
        self._begun.append((monotonic, (claim.delivery_id, claim.number)))

    def give_back(self, claims: Iterable[Claim]) -> None:
        """Free the slots of recorded or released claims."""
        numbers: defaultdict[SlotHolder, int] = defaultdict(int)
        with self._lock:
            for claim in claims:
                key = claim.delivery_id, claim.number
                if key not in self._open:
                    continue
                webhook = self._open[key]
                del self._open[key]
                numbers[webhook] += 1
                if key in self._late:
                    self._late.remove(key)
                    webhook.late -= 1
            for webhook, number in numbers.items():
                self._hold(webhook, -number)

    def note(self, finished: Iterable[Finished]) -> None:
        """Record the durations of requests.

        Fast handshakes are ignored, because a receiver's code for events may be slower. Requests without a duration
        were not sent.
        """
        with self._lock:
            for claim, attempt, _, _ in finished:
                milliseconds = attempt.duration_ms
                if milliseconds is None or claim.lost_since is not None:
                    continue
                is_fast = milliseconds < 1000 * FAST_SECONDS
                webhook = self._webhooks[claim.webhook_id]
                if webhook.is_fast is not is_fast and not (is_fast and claim.kind == Delivery.Kind.VERIFICATION):
                    webhook.is_fast = is_fast
                    self._changed.add(claim.webhook_id)

    def changed_paces(self) -> dict[str, bool]:
        """Return the webhooks with a changed pace that is not yet ``stored``."""
        with self._lock:
            return {webhook_id: bool(self._webhooks[webhook_id].is_fast) for webhook_id in self._changed}

    def stored(self, paces: Mapping[str, bool]) -> None:
        """Record that these paces are stored, except those changed again since."""
        with self._lock:
            self._changed -= {pk for pk, is_fast in paces.items() if self._webhooks[pk].is_fast is is_fast}

    def _without_slow(self, webhook_ids: Sequence[str]) -> list[str]:
        """Leave slow webhooks out for a while after a claim from some of them."""
        is_open = self._clock() >= self._slow_from
        found = [pk for pk in webhook_ids if is_open or not self._webhooks[pk].is_slow]
        self.slow_again_at = self._slow_from if len(found) < len(webhook_ids) else None
        return found

    def _left_for(self, webhook: SlotHolder) -> int:
        """Return how many more slots the webhook may hold. Can be negative."""
        owner, own, free = webhook.owner, webhook.held, self.free
        of_owner = owner.held
        is_slow, is_unknown = webhook.late > 0 or webhook.is_fast is False, webhook.is_fast is None
        if own and is_unknown:
            return 0

        left, left_further = free + of_owner, self._further_free + (of_owner - 1 if of_owner else 0)
        share = 1 + left_further
        left_first = share - of_owner
        if (is_slow or is_unknown) and owner.webhooks * 2 >= share:
            left_first = 0 if is_slow else share * 3 // 4 - of_owner
        if not own:
            first = min(left_first, free - 1) if of_owner else free
            if first <= 0 or is_unknown:
                return min(first, 1)

        siblings, of_siblings = (owner.webhooks - 1, of_owner - own) if own else (owner.webhooks, of_owner)
        left_in_share, left_further_in_share = share - of_siblings, share // 2 - (of_siblings - siblings)
        is_sole = self._holding == (1 if of_owner else 0)
        if is_slow and not is_sole:
            left_further -= self._window * min(MOST_RESERVED, max(0, of_owner - 1)) // 16
        if is_slow and siblings:
            left_further_in_share -= share * min(MOST_RESERVED, max(0, own - 1)) // 16
        further = min(
            _most(left, left_further, is_sole=is_sole) - of_owner,
            _most(left_in_share, left_further_in_share, is_sole=not siblings) - own,
            share - of_owner - 1,
        )
        if self._holding > self._window // MANY_OWNERS and not is_sole:
            further = min(further, self._left_beside_many(webhook))
        if is_slow:
            further = min(further, own or 1, left_first)  # at most twice as many, so that several grow evenly
        return further if own else max(1, further)

    def _left_beside_many(self, webhook: SlotHolder) -> int:
        """Return how many more slots the webhook may hold while many owners hold any.

        The rest is for first slots of known webhooks, second ones of fast webhooks, and a further one of each owner.
        """
        owner, own, is_slow = webhook.owner, webhook.held, webhook.is_slow
        siblings = len(self._webhooks) - len(self._owners)
        most = max((2 + self._window) // 4, self._window * 5 // 16, self._window * 7 // 16 - siblings)
        free, beyond = most - self._beyond, owner.held - owner.webhooks
        reserved = self._window * min(MOST_RESERVED, max(0, owner.held - 1)) // 32 if is_slow else 0
        limits = [
            (free + beyond - reserved - self._window // 8) * BEYOND_PART // 8,
            min(1, free + beyond),  # one for each owner
        ]
        if own < 2 and not is_slow and free > self._window // 16:
            limits.append(beyond + 1)  # a second slot
        return max(limits) - beyond + (not own)

    def _note_late(self) -> None:
        """Mark requests that have been open for too long as late."""
        begun = self._begun
        while begun and begun[0][1] not in self._open:
            begun.popleft()
        if not begun:
            return
        latest = self._clock.monotonic() - FAST_SECONDS
        while begun and begun[0][0] <= latest:
            _, key = begun.popleft()
            if key in self._open and key not in self._late:
                webhook = self._open[key]
                self._late.add(key)
                webhook.late += 1

    def _hold(self, webhook: SlotHolder, number: int) -> None:
        """Count slots as held by this webhook, or as freed for a negative number."""
        owner = webhook.owner
        held, of_owner = webhook.held, owner.held
        webhook.held = held + number
        owner.held = of_owner + number
        self.free -= number
        new_webhooks = (held + number > 0) - (held > 0)
        owner.webhooks += new_webhooks
        self._beyond += number - new_webhooks
        new_owners = (of_owner + number > 0) - (of_owner > 0)
        self._holding += new_owners
        self._further_free -= number - new_owners
