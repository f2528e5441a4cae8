"""Slots: the sharing of one worker's concurrent requests between webhooks and owners.

A claim holds a slot until its result is recorded. The sharing depends on how long slots are held, regardless
of the result. A request open for a second makes its webhook slow immediately, not only at its end.
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
from ..models.rate_limit import LONG_AGO
from .claim import Claim, Finished
from .lanes import Ask

SHARE_OF_WINDOW = 4
"""A webhook uses at most a quarter of the window of one process, and so do all slow webhooks together."""

OWNER_WEIGHT = 3
"""An owner holds at most three times as many slots as are free: a single owner 3/4, two owners 3/7 each."""

FIRST_WEIGHT = 7
"""The same for webhooks without slots: one each, even if others of the owner hold three quarters."""

FORGET_UNUSED_AFTER_SECONDS = 3600.0

Key = tuple[str, int]


def usual_cap(window: int, configured: int) -> int:
    """Return the maximum number of a webhook's requests in flight for a process with this window."""
    return max(1, min(configured, window // SHARE_OF_WINDOW))


class Room:
    """A number of slots for a group of webhooks. Some always remain free for other owners."""

    def __init__(self, size: int) -> None:
        self.free = size
        self._held: defaultdict[str, int] = defaultdict(int)

    def left_for(self, webhook: SlotHolder) -> int:
        """Return how many more slots the webhook may hold, by its own and its owner's share. Can be negative."""
        free, of_owner = self.free, self._held.get(webhook.owner, 0)
        own = free - (SHARE_OF_WINDOW - 1) * webhook.held
        left = -(-min(own, OWNER_WEIGHT * free - of_owner) // SHARE_OF_WINDOW)
        return 1 if left <= 0 and not webhook.held and of_owner < FIRST_WEIGHT * free else left

    def take(self, owner: str, number: int) -> None:
        """Count slots as held by this owner, or as freed for a negative number."""
        self.free -= number
        self._held[owner] += number
        if not self._held[owner]:
            del self._held[owner]


class SlotHolder:
    """The state of a webhook in one worker."""

    __slots__ = ("held", "is_fast", "late", "owner", "rooms", "was_used")

    def __init__(self, owner: str, is_fast: bool | None) -> None:
        self.owner = owner
        self.is_fast = is_fast
        """Whether its last request was fast, or None before the first."""
        self.held = 0
        self.late = 0
        """The number of held slots with requests open for longer than a fast one."""
        self.rooms: Sequence[Room] = ()
        self.was_used = True
        """Whether it was added or had a claim since the last removal of unused webhooks."""


class Slots:
    """The slots of one worker. Thread-safe.

    Fast webhooks share the whole window, because they free each slot within a second. Unknown and slow ones together
    get half of it. Slow ones start requests only while they hold less than a quarter, so that a quarter remains for
    unknown ones. An unknown webhook has one open request until its first result, over all workers.
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
        everyone, unproven, slow = (Room(max(1, window // part)) for part in (1, 2, SHARE_OF_WINDOW))
        self._fast_rooms = (everyone,)
        self._unknown_rooms = (everyone, unproven)
        self._slow_rooms = (everyone, unproven, slow)
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
            self._webhooks[webhook_id] = webhook = SlotHolder(owner, is_fast)
            webhook.rooms = self._rooms_of(webhook)

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

    def refresh(self, stored: Iterable[tuple[str, bool | None]]) -> None:
        """Update the paces from the database. This worker's own changes remain until they are ``stored``.

        The stored pace is None after a change of the webhook's URL.
        """
        with self._lock:
            for webhook_id, is_fast in stored:
                webhook = self._webhooks.get(webhook_id)
                if webhook is None or webhook.is_fast is is_fast or webhook_id in self._changed:
                    continue
                webhook.is_fast = is_fast
                self._regroup(webhook)

    def with_room(self, webhook_ids: Iterable[str]) -> list[str]:
        """Return the webhooks that may start a request, each considered separately."""
        with self._lock:
            self._note_late()
            known = [pk for pk in webhook_ids if pk in self._webhooks]  # one may have been deleted
            found = [pk for pk in known if self._left_for(self._webhooks[pk]) > 0]
            return self._without_slow(found) if self._slow_apart else found

    def asks(self, webhook_ids: Collection[str], limit: int) -> list[Ask]:
        """Return the claims to make from these webhooks, at most ``limit`` together. Omit those without a free slot."""
        share = max(1, limit // max(1, len(webhook_ids)))
        found: list[Ask] = []
        with self._lock:
            self._note_late()
            for webhook_id in webhook_ids:
                webhook = self._webhooks[webhook_id]
                if (room := min(share, limit, self._left_for(webhook))) > 0:
                    limit -= room
                    found.append(Ask(webhook_id, webhook.held, self.cap, room, webhook.is_fast is None))
                    self._hold(webhook, room)
            for ask in found:
                self._hold(self._webhooks[ask.webhook_id], -ask.room)
        return found

    def take(self, claims: Iterable[Claim]) -> None:
        """Hold a slot for each claim."""
        numbers: defaultdict[SlotHolder, int] = defaultdict(int)
        with self._lock:
            for claim in claims:
                pick = claim.pick
                key = pick.delivery_id, pick.number
                if key not in self._open:
                    self._open[key] = webhook = self._webhooks[pick.webhook_id]
                    numbers[webhook] += 1
            for webhook, number in numbers.items():
                webhook.was_used = True
                self._hold(webhook, number)
            if self._slow_apart and any(webhook.rooms is self._slow_rooms for webhook in numbers):
                self._slow_from = self._clock() + self._slow_apart

    def begin(self, claim: Claim, monotonic: float) -> None:
        """Record the start of a claim's request."""
        self._begun.append((monotonic, (claim.pick.delivery_id, claim.pick.number)))

    def give_back(self, claims: Iterable[Claim]) -> None:
        """Free the slots of recorded or released claims."""
        numbers: defaultdict[SlotHolder, int] = defaultdict(int)
        with self._lock:
            for claim in claims:
                pick = claim.pick
                key = pick.delivery_id, pick.number
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
                self._regroup(webhook)

    def note(self, finished: Iterable[Finished]) -> None:
        """Record the durations of requests.

        Fast handshakes are ignored, because a receiver's code for events may be slower. Requests without a duration
        were not sent.
        """
        with self._lock:
            for claim, attempt, _, _ in finished:
                milliseconds, pick = attempt.duration_ms, claim.pick
                if milliseconds is None or pick.lost_since is not None:
                    continue
                is_fast = milliseconds < 1000 * FAST_SECONDS
                webhook = self._webhooks[pick.webhook_id]
                if webhook.is_fast is not is_fast and not (is_fast and pick.kind == Delivery.Kind.VERIFICATION):
                    webhook.is_fast = is_fast
                    self._changed.add(pick.webhook_id)
                    self._regroup(webhook)

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
        found = [pk for pk in webhook_ids if is_open or self._webhooks[pk].rooms is not self._slow_rooms]
        self.slow_again_at = self._slow_from if len(found) < len(webhook_ids) else None
        return found

    def _left_for(self, webhook: SlotHolder) -> int:
        if webhook.is_fast is None and webhook.held:
            return 0
        everyone, *others = webhook.rooms
        left = everyone.left_for(webhook)
        for room in others:
            left = min(left, room.left_for(webhook))
        return min(left, 1) if webhook.is_fast is None else left

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
                self._regroup(webhook)

    def _regroup(self, webhook: SlotHolder) -> None:
        rooms = self._rooms_of(webhook)
        if rooms is webhook.rooms:
            return
        held = webhook.held
        self._hold(webhook, -held)
        webhook.rooms = rooms
        self._hold(webhook, held)

    def _rooms_of(self, webhook: SlotHolder) -> Sequence[Room]:
        if webhook.late or webhook.is_fast is False:
            return self._slow_rooms
        return self._fast_rooms if webhook.is_fast else self._unknown_rooms

    def _hold(self, webhook: SlotHolder, number: int) -> None:
        webhook.held += number
        for room in webhook.rooms:
            room.take(webhook.owner, number)
