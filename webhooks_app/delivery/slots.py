"""Slots: the sharing of one worker's concurrent requests between owners, and between the webhooks of an owner.

A claim holds a slot until its result is recorded. No slot is taken back before. W slots are shared by these rules:

- **The first slot of each owner** comes from half of the window: all slots beyond these are at most W/2, and the last
  free one goes to an owner without any. An owner's share is W/2 + 1, less the slots of others beyond their first.
- **The first slot of each webhook** comes from its owner's share. All slots beyond these leave one for each known
  webhook, and W/16 for new ones, but are never limited to less than W/4. One owner can hold W/4 of them.
- **Further slots** are shared by halves: an owner takes at most half of what the others leave of them without W/8, and
  a webhook at most half of what its siblings leave of that. While no other owner holds any, an owner leaves 3/16 W. A
  webhook that is alone in the process can hold W/4.
- **Delivering earns further slots**: up to twice as many as the webhook's delivered requests of up to two seconds used
  on average in the last second (Little's law), beyond the halves. A webhook that begins to hang earns no more, and one
  that delivers keeps its pace beside it. The last W/16 are for those that need at most eight.
- **Slow webhooks** leave W/4 instead of W/8, and at most double their slots at a time. Once the webhooks of their owner
  that hold any are half of its share, slow ones get no more, and unknown ones only while a quarter of it is free.

Proof, apart from rounding: let n owners hold slots, and E be the number of slots beyond the first of each. One more of
these is granted only while E < W/2. Therefore at least W/2 - n slots are free for other owners, whatever becomes of the
requests. Let S be the number of known webhooks beyond the first of each owner. If S is at most 3/16 W, the slots beyond
the first of each webhook are at most 7/16 W - S when the last one is granted. As long as a fast webhook has no slot,
and no more than W/16 webhooks were learned since, E is therefore less than W/2, and the webhook gets one if n < W/2.
That a webhook is slow changes none of these numbers, only what it may take next.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from ..database.clock import Clock
from ..models import DeliveryAttempt
from ..models.lane import FAST_SECONDS
from ..models.limits import LONG_AGO
from .claim import HANDSHAKE, Claim, ClaimRequest, Finished

SHARE_OF_WINDOW = 4
"""A webhook uses at most a quarter of the window of one process: half of the half that one owner can hold."""

FORGET_UNUSED_AFTER_SECONDS = 3600.0

FEW = 8
"""How many further slots a webhook can earn of the last W/16."""

LEAST_MS, MOST_MS = 150, 2000
"""A delivered request earns at least the first time, because short ones come at irregular intervals: with seven of them
per second, a webhook may have a second slot. One that takes longer than the second time earns nothing."""

SUCCEEDED = DeliveryAttempt.Result.SUCCEEDED.value

Key = tuple[str, int]


def usual_cap(window: int, configured: int) -> int:
    """Return the maximum number of a webhook's requests in flight for a process with this window."""
    return max(1, min(configured, window // SHARE_OF_WINDOW))


class OwnerSlots:
    """The slots of an owner in one worker."""

    __slots__ = ("held", "webhooks")

    def __init__(self) -> None:
        self.held = 0
        self.webhooks = 0
        """The number of its webhooks that hold any."""


class SlotHolder:
    """The state of a webhook in one worker."""

    __slots__ = ("before_ms", "current_ms", "held", "is_fast", "late", "owner", "second", "was_used")

    def __init__(self, owner: OwnerSlots, is_fast: bool | None) -> None:
        self.owner = owner
        self.is_fast = is_fast
        """Whether its last request was fast, or None before the first."""
        self.held = 0
        self.late = 0
        """The number of held slots with requests open for longer than a fast one."""
        self.second = self.current_ms = self.before_ms = 0
        """The time that its delivered requests took of this ``second`` and the one before, in milliseconds."""
        self.was_used = True
        """Whether it was added or had a claim since the last removal of unused webhooks."""

    @property
    def is_slow(self) -> bool:
        return self.late > 0 or self.is_fast is False

    def slots_in_use(self, second: int) -> int:
        """Return the slots that its delivered requests used in this second, plus those in the one before."""
        if second > self.second:
            self.turn(second)
        return (self.before_ms + self.current_ms) // 1000

    def turn(self, second: int) -> None:
        """Begin another second."""
        self.before_ms = self.current_ms if second == self.second + 1 else 0
        self.current_ms = 0
        self.second = second


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
        self._second = 0
        """When ``_note_late`` was called last, in whole seconds of the monotonic clock."""
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
            found = [pk for pk in known if self._left_for(self._webhooks[pk], 1) > 0]
            return self._without_slow(found) if self._slow_apart else found

    def asks(self, webhook_ids: Collection[str], limit: int) -> list[ClaimRequest]:
        """Return the claims to make from these webhooks, at most ``limit`` together. Omit those without a free slot."""
        share = max(1, limit // max(1, len(webhook_ids)))
        found: list[ClaimRequest] = []
        with self._lock:
            self._note_late()
            for webhook_id in webhook_ids:
                webhook = self._webhooks[webhook_id]
                if (room := min(share, limit, self._left_for(webhook, share))) > 0:
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
        """Record the start of a claim's request, except of one to a pending URL."""
        if claim.kind == HANDSHAKE and claim.lane.is_changing_url:
            return
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

        Fast handshakes are ignored, because a receiver's code for events may be slower, and all of a pending URL.
        Requests without a duration were not sent.
        """
        with self._lock:
            second = int(self._clock.monotonic())
            for claim, attempt, _, _ in finished:
                milliseconds = attempt.duration_ms
                if milliseconds is None or claim.lost_since is not None:
                    continue
                is_handshake = claim.kind == HANDSHAKE
                if is_handshake and claim.lane.is_changing_url:
                    continue
                is_fast = milliseconds < 1000 * FAST_SECONDS
                webhook = self._webhooks[claim.webhook_id]
                if attempt.result == SUCCEEDED and milliseconds <= MOST_MS:
                    if webhook.second < second:
                        webhook.turn(second)
                    webhook.current_ms += max(LEAST_MS, milliseconds)
                if webhook.is_fast is not is_fast and not (is_fast and is_handshake):
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

    def _left_for(self, webhook: SlotHolder, wanted: int) -> int:
        """Return how many more slots the webhook may hold. Without any, it is only told of one if it wants one."""
        owner, own = webhook.owner, webhook.held
        is_slow, is_unknown = webhook.late > 0 or webhook.is_fast is False, webhook.is_fast is None
        if own and is_unknown:
            return 0

        share = self._further_free + (owner.held or 1)
        left_first = left = share - owner.held
        if (is_slow or is_unknown) and owner.webhooks * 2 >= share:
            left_first = 0 if is_slow else share * 3 // 4 - owner.held
        if not own:
            available = min(left_first, self.free - 1) if owner.held else self.free
            if available <= 0:
                return 0
            if is_unknown or wanted == 1:
                return 1

        first = 0 if own else 1
        further = min(self._left_beyond(webhook, is_slow=is_slow), min(left, self.free) - first - 1)
        if is_slow:
            further = min(further, own, left_first)  # at most twice as many, so that several grow evenly
        return first + max(0, further)

    def _left_beyond(self, webhook: SlotHolder, *, is_slow: bool) -> int:
        """Return how many more slots the webhook may hold beyond its first. Can be negative."""
        owner, window = webhook.owner, self._window
        beyond, of_owner = max(0, webhook.held - 1), owner.held - owner.webhooks
        quarter = (1 + window // 2) // 2
        is_alone = self._window - self.free == webhook.held
        if is_alone:
            return quarter - beyond

        siblings = len(self._webhooks) - len(self._owners)
        left = max(quarter, window * 7 // 16 - siblings) - self._beyond
        has_other_owners = self._holding > (1 if owner.held else 0)
        has_siblings = owner.webhooks > (1 if webhook.held else 0)
        if not has_other_owners:
            most = left - window * 3 // 16
        else:
            most = (left + of_owner - window // (4 if is_slow else 8)) // 2 - of_owner
        if has_siblings:
            most = (most + beyond) // 2 - beyond
        in_use, left = webhook.slots_in_use(self._second), min(left, quarter - of_owner)
        to_earn = max(left - window // 16, min(left, FEW - beyond) if in_use < 2 * FEW else 0)
        return max(most, min(to_earn, in_use - beyond))

    def _note_late(self) -> None:
        """Mark requests that have been open for too long as late, as of now."""
        monotonic = self._clock.monotonic()
        self._second = int(monotonic)
        begun = self._begun
        while begun and begun[0][1] not in self._open:
            begun.popleft()
        latest = monotonic - FAST_SECONDS
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
