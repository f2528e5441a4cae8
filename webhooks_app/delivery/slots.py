"""Slots: the sharing of one worker's concurrent requests between owners, and between the webhooks of an owner.

A claim holds a slot until its result is recorded. No slot is taken back before. ``FRACTIONS`` divides the W slots by
these rules:

- **The first slot of each owner** is any free one: all slots beyond these are at most ``beyond_owners``, and the last
  free one goes to an owner without any. An owner's share is ``beyond_owners`` + 1, less the slots of others beyond
  their first.
- **The first slot of each webhook** comes from its owner's share. All slots beyond these are at most
  ``beyond_webhooks`` less one for each known webhook, but are never limited to less than ``of_one_owner``, the most
  that one owner can hold of them.
- **Further slots** are shared by halves: an owner takes at most half of what the others leave of them without
  ``beside_fast``, and a webhook at most half of what its siblings leave of that. While no other owner holds any, an
  owner leaves ``for_other_owners``. A webhook that is alone in the process can hold ``of_one_owner``.
- **Delivering earns further slots**: up to twice as many as the webhook's delivered requests of up to two seconds used
  on average in the last second (Little's law), beyond the halves. A webhook that begins to hang earns no more, and one
  that delivers keeps its pace beside it. The last ``for_few`` are for those that need at most eight.
- **Slow webhooks** leave ``beside_slow`` instead of ``beside_fast``, and at most double their slots at a time. Once the
  webhooks of their owner that hold any are ``slow_of_share`` of its share, slow ones get no more, and unknown ones only
  while the owner holds less than ``unknown_of_share`` of it.
- **Probes**: while half of all slots are free, a webhook that hangs gets one more every ``PROBE_SECONDS``, so that its
  recovery is noticed, whatever still hangs. Those that wait longest are first. Probes leave ``for_few`` of the slots
  beyond the first of each webhook, and ``slow_of_share``. They become less frequent once more than half of what they
  leave others is held, in total or by their owner, so that some remain until requests end.

Proof, apart from rounding: let R be the smaller of W and ``KEPT_OF``, n owners hold slots, and E be the number of slots
beyond the first of each. One more of these is granted only while E < ``beyond_owners`` = W - R/2. Therefore at least
R/2 - n slots are free for other owners, whatever becomes of the requests. Let S be the number of known webhooks beyond
the first of each owner. If S is at most ``beyond_webhooks`` - ``of_one_owner``, which is 3/16 R or more, the slots
beyond the first of each webhook are at most ``beyond_webhooks`` - S = W - 9/16 R - S when the last one is granted. As
long as a fast webhook has no slot, and no more than ``beyond_owners`` - ``beyond_webhooks`` = R/16 webhooks were
learned since, E is therefore less than W - R/2, and the webhook gets one if n < R/2. Probes are within the same
bounds. That a webhook is slow changes none of these numbers, only what it may take next.
"""

from __future__ import annotations

import math
import threading
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from fractions import Fraction
from typing import Any, NamedTuple

from ..models import DeliveryAttempt
from ..models.lane import FAST_SECONDS
from .claim import HANDSHAKE, Claim, ClaimRequest, Finished

FRACTIONS: Mapping[str, Fraction] = {
    # Half for what some owners hold beyond their first slot: the other half lets as many new owners begin at once.
    "beyond_owners": Fraction(1, 2),
    # A sixteenth less, so that so many webhooks can be new before one of a known owner finds no first slot.
    "beyond_webhooks": Fraction(7, 16),
    # What an owner leaves while it is alone, so that a second one begins with some beyond its first slot.
    "for_other_owners": Fraction(3, 16),
    # What nobody takes by halves, so that halving always leaves something to those who come.
    "beside_fast": Fraction(1, 8),
    # The same for slow webhooks, whose slots come back late.
    "beside_slow": Fraction(1, 4),
    # What many delivered requests cannot earn, so that few can earn something beside them.
    "for_few": Fraction(1, 16),
}
"""The parts of the window, each with its reason. The first two have all slots beyond ``KEPT_OF`` in addition."""

KEPT_OF = 2000
"""The window above which no more is kept for others: they need a number of slots, and not a part of a large window."""

SLOW_OF_SHARE, UNKNOWN_OF_SHARE = 0.5, 0.75
"""The parts of the share of an owner up to which its slow webhooks, and its unknown ones, get first slots: half of it
remains for fast webhooks, and a quarter more than for slow ones is for those that may be fast."""

PROBE_SECONDS = 1.9
"""The least time between two requests to a webhook that hangs: two seconds, less the time of a look."""

FORGET_UNUSED_AFTER_SECONDS = 3600.0

FEW = 8
"""How many further slots a webhook can earn of ``for_few``."""

LEAST_MS, MOST_MS = 150, 2000
"""A delivered request earns at least the first time, because short ones come at irregular intervals: with seven of them
per second, a webhook may have a second slot. One that takes longer than the second time earns nothing."""

SUCCEEDED = DeliveryAttempt.Result.SUCCEEDED.value

Key = tuple[str, int]


def usual_cap(window: int, configured: int) -> int:
    """Return the maximum number of a webhook's requests in flight for a process with this window."""
    return max(1, min(configured, Shares.of(window).of_one_owner))


class Shares(NamedTuple):
    """``FRACTIONS`` of a window in slots."""

    beyond_owners: int
    beyond_webhooks: int
    for_other_owners: int
    beside_fast: int
    beside_slow: int
    for_few: int

    @classmethod
    def of(cls, window: int) -> Shares:
        kept_of = min(window, KEPT_OF)
        shares = cls(**{name: int(kept_of * fraction) for name, fraction in FRACTIONS.items()})
        more = window - kept_of
        return shares._replace(beyond_owners=shares.beyond_owners + more, beyond_webhooks=shares.beyond_webhooks + more)

    @property
    def of_one_owner(self) -> int:
        """Half of ``beyond_owners``, so that two owners, or two webhooks of one, can be served alike."""
        return (1 + self.beyond_owners) // 2  # rounded up, so that the smallest window has one too


class OwnerSlots:
    """The slots of an owner in one worker."""

    __slots__ = ("held", "webhooks")

    def __init__(self) -> None:
        self.held = 0
        self.webhooks = 0
        """The number of its webhooks that hold any."""


class SlotHolder:
    """The state of a webhook in one worker."""

    __slots__ = ("before_ms", "current_ms", "held", "is_fast", "late", "owner", "second", "waits_since", "was_used")

    def __init__(self, owner: OwnerSlots, is_fast: bool | None) -> None:
        self.owner = owner
        self.is_fast = is_fast
        """Whether its last request was fast, or None before the first."""
        self.held = 0
        self.late = 0
        """The number of held slots with requests open for longer than a fast one."""
        self.waits_since = -math.inf
        """When it last got a slot, or minus infinity after a fast result beside late requests."""
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


class Totals:
    """The slots of all owners in one worker."""

    __slots__ = ("beyond", "free", "further_free", "holding")

    def __init__(self, window: int, further: int) -> None:
        self.free = window
        self.further_free = further
        """The number of slots that may still be held beyond the first of each owner."""
        self.beyond = 0
        """The number of slots that are held beyond the first of each webhook."""
        self.holding = 0
        """The number of owners that hold any."""


class OpenRequests:
    """The claims that hold a slot, and their requests."""

    __slots__ = ("begun", "late", "webhooks")

    def __init__(self) -> None:
        self.webhooks: dict[Key, SlotHolder] = {}
        self.begun: deque[tuple[float, Key]] = deque()
        """The times of their starts."""
        self.late: set[Key] = set()

    def note_late(self, monotonic: float) -> None:
        """Mark requests that have been open for too long as late."""
        begun, webhooks = self.begun, self.webhooks
        while begun and begun[0][1] not in webhooks:
            begun.popleft()
        latest = monotonic - FAST_SECONDS
        while begun and begun[0][0] <= latest:
            _, key = begun.popleft()
            if key in webhooks and key not in self.late:
                self.late.add(key)
                webhooks[key].late += 1


class Publications:
    """What other workers see of this one's webhooks."""

    __slots__ = ("changed_paces", "numbers")

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        """The numbers of claims."""
        self.changed_paces: set[str] = set()
        """Webhooks with a pace that they do not see yet."""


class Slots:
    """The slots of one worker. Thread-safe. Times are seconds of the monotonic clock.

    A webhook becomes slow when a request has been open for a second, regardless of its result, and fast again by a fast
    result. An unknown webhook has one open request until its first result, over all workers, apart from probes.
    """

    def __init__(self, *, window: int, cap: int, slow_apart: timedelta = timedelta(0)) -> None:
        self.cap = cap
        self._slow_apart_seconds = slow_apart.total_seconds()
        """The time between two claims from slow webhooks, where a claim keeps others waiting."""
        self._slow_from = -math.inf
        self._lock = threading.Lock()
        self._window = max(1, window)
        self._shares = Shares.of(self._window)
        self._totals = Totals(self._window, self._shares.beyond_owners)
        self._owners: defaultdict[str, OwnerSlots] = defaultdict(OwnerSlots)
        self._webhooks: dict[str, SlotHolder] = {}
        self._open = OpenRequests()
        self._publications = Publications()
        self._forget_at = -math.inf

    @property
    def free(self) -> int:
        return self._totals.free

    def __len__(self) -> int:
        return len(self._open.webhooks)

    def is_open(self, delivery_id: str, number: int) -> bool:
        """Return True if a claim of this attempt holds a slot."""
        return (delivery_id, number) in self._open.webhooks

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
            found, changed = self._webhooks.items(), self._publications.changed_paces
            self._webhooks = {pk: each for pk, each in found if each.was_used or each.held or pk in changed}
            for webhook in self._webhooks.values():
                webhook.was_used = False
            used = {webhook.owner for webhook in self._webhooks.values()}
            for owner in [name for name, slots in self._owners.items() if slots not in used]:
                del self._owners[owner]

    def refresh(self, stored: Iterable[tuple[str, bool | None]]) -> None:
        """Update the paces from the database. This worker's own changes remain until they are ``stored``.

        The stored pace is None after a change of the webhook's URL.
        """
        changed = self._publications.changed_paces
        with self._lock:
            for webhook_id, is_fast in stored:
                if (webhook := self._webhooks.get(webhook_id)) and webhook_id not in changed:
                    webhook.is_fast = is_fast

    def with_room(self, webhook_ids: Iterable[str], monotonic: float) -> tuple[list[str], float | None]:
        """Return the webhooks that may start a request, each considered separately.

        Also return when others may, even without a result until then: slow ones and probes. None without any.
        """
        with self._lock:
            self._open.note_late(monotonic)
            known = [pk for pk in webhook_ids if pk in self._webhooks]  # one may have been deleted
            found = [pk for pk in known if self._left_for(self._webhooks[pk], 1, monotonic) > 0]
            again_at = self._next_probe_at(set(known).difference(found), monotonic)
            if monotonic < self._slow_from:
                fast = [pk for pk in found if not self._webhooks[pk].is_slow]
                if len(fast) < len(found):
                    return fast, self._slow_from
            return found, again_at

    def asks(self, webhook_ids: Collection[str], limit: int, monotonic: float) -> list[ClaimRequest]:
        """Return the claims to make from these webhooks, at most ``limit`` together. Omit those without a free slot."""
        share = max(1, limit // max(1, len(webhook_ids)))
        found: list[ClaimRequest] = []
        with self._lock:
            self._open.note_late(monotonic)
            for webhook_id in self._in_turn(webhook_ids):
                webhook = self._webhooks[webhook_id]
                if (room := min(share, limit, self._left_for(webhook, share, monotonic))) > 0:
                    limit -= room
                    is_unknown = webhook.is_fast is None and not webhook.held
                    found.append(ClaimRequest(webhook_id, webhook.held, self.cap, room, is_unknown))
                    self._hold(webhook, room)
            for ask in found:
                self._hold(self._webhooks[ask.webhook_id], -ask.room)
        return found

    def take(self, claims: Iterable[Claim], monotonic: float) -> None:
        """Hold a slot for each claim."""
        numbers: defaultdict[SlotHolder, int] = defaultdict(int)
        held = self._open.webhooks
        with self._lock:
            for claim in claims:
                key = claim.delivery_id, claim.number
                if key not in held:
                    held[key] = webhook = self._webhooks[claim.webhook_id]
                    numbers[webhook] += 1
            for webhook, number in numbers.items():
                webhook.was_used = True
                webhook.waits_since = monotonic
                self._hold(webhook, number)
            if self._slow_apart_seconds and any(webhook.is_slow for webhook in numbers):
                self._slow_from = monotonic + self._slow_apart_seconds

    def begin(self, claim: Claim, monotonic: float) -> None:
        """Record the start of a claim's request, except of one to a pending URL."""
        if claim.kind == HANDSHAKE and claim.lane.is_changing_url:
            return
        self._open.begun.append((monotonic, (claim.delivery_id, claim.number)))

    def give_back(self, claims: Iterable[Claim]) -> None:
        """Free the slots of recorded or released claims."""
        numbers: defaultdict[SlotHolder, int] = defaultdict(int)
        held, late = self._open.webhooks, self._open.late
        with self._lock:
            for claim in claims:
                key = claim.delivery_id, claim.number
                if key not in held:
                    continue
                webhook = held[key]
                del held[key]
                numbers[webhook] += 1
                if key in late:
                    late.remove(key)
                    webhook.late -= 1
            for webhook, number in numbers.items():
                self._hold(webhook, -number)

    def note(self, finished: Iterable[Finished], monotonic: float) -> None:
        """Record the durations of requests.

        Fast handshakes are ignored, because a receiver's code for events may be slower, and all of a pending URL.
        Requests without a duration were not sent.
        """
        with self._lock:
            second = int(monotonic)
            for claim, attempt, _, _ in finished:
                milliseconds = attempt.duration_ms
                if milliseconds is None or claim.lost_since is not None:
                    continue
                is_handshake = claim.kind == HANDSHAKE
                if is_handshake and claim.lane.is_changing_url:
                    continue
                is_fast = milliseconds < 1000 * FAST_SECONDS
                webhook = self._webhooks[claim.webhook_id]
                if is_fast and webhook.late:
                    webhook.waits_since = -math.inf
                if attempt.result == SUCCEEDED and milliseconds <= MOST_MS:
                    if webhook.second < second:
                        webhook.turn(second)
                    webhook.current_ms += max(LEAST_MS, milliseconds)
                if webhook.is_fast is not is_fast and not (is_fast and is_handshake):
                    webhook.is_fast = is_fast
                    self._publications.changed_paces.add(claim.webhook_id)

    def counted(self, numbers: Mapping[str, int]) -> None:
        """Record the numbers of this worker's claims that other workers see now, by webhook."""
        with self._lock:
            self._publications.numbers |= numbers

    def to_publish(self) -> dict[str, tuple[int, bool | None]]:
        """Return the webhooks of which other workers see too many claims, or another pace.

        The values are the number of claims, and the pace if it has changed.
        """
        shown = self._publications
        with self._lock:
            held = {pk: self._webhooks[pk].held if pk in self._webhooks else 0 for pk in shown.numbers}
            found: dict[str, tuple[int, bool | None]]
            found = {pk: (held[pk], None) for pk, number in shown.numbers.items() if held[pk] < number}
            for webhook_id in shown.changed_paces:
                webhook = self._webhooks[webhook_id]
                found[webhook_id] = webhook.held, bool(webhook.is_fast)
            return found

    def published(self, numbers: Mapping[str, tuple[int, bool | None]]) -> None:
        """Record that these are stored. A pace that has changed again since is published again."""
        shown = self._publications
        with self._lock:
            for webhook_id, (number, is_fast) in numbers.items():
                if number:
                    shown.numbers[webhook_id] = number
                else:
                    shown.numbers.pop(webhook_id, None)
                if is_fast is not None and self._webhooks[webhook_id].is_fast is is_fast:
                    shown.changed_paces.discard(webhook_id)

    def _in_turn(self, webhook_ids: Collection[str]) -> Iterable[str]:
        """Return those that hang last, and of these the longest without a request first."""
        if not self._open.late:
            return webhook_ids
        webhooks = self._webhooks
        return sorted(webhook_ids, key=lambda pk: webhooks[pk].waits_since if webhooks[pk].late else -math.inf)

    def _left_for(self, webhook: SlotHolder, wanted: int, monotonic: float) -> int:
        """Return how many more slots the webhook may hold. Without any, it is only told of one if it wants one."""
        probes = int(monotonic >= self._probe_at(webhook))
        return max(probes, self._left_by_shares(webhook, wanted, int(monotonic)))

    def _probe_at(self, webhook: SlotHolder) -> float:
        """Return when the webhook may hold one more slot beside its requests that hang. Can be infinite."""
        owner, shares, totals = webhook.owner, self._shares, self._totals
        share = totals.further_free + owner.held
        if not webhook.held or not 1 < totals.free >= self._window / 2 or owner.webhooks >= share * SLOW_OF_SHARE:
            return math.inf
        left = self._left_of_further - shares.for_few
        left_of_owner = shares.of_one_owner - (owner.held - owner.webhooks)
        if min(left, left_of_owner) <= 0:
            return math.inf
        part = min(left / (left + totals.beyond), left_of_owner / shares.of_one_owner)
        return webhook.waits_since + PROBE_SECONDS / min(1.0, 2 * part)

    def _next_probe_at(self, webhook_ids: Iterable[str], monotonic: float) -> float | None:
        """Return when the first of these webhooks may begin a probe, or None if none of them may."""
        times = [self._probe_at(webhook) for webhook in map(self._webhooks.__getitem__, webhook_ids)]
        return min((at for at in times if monotonic < at < math.inf), default=None)

    @property
    def _left_of_further(self) -> int:
        """How many more slots beyond the first of each webhook may be held. Can be negative."""
        shares = self._shares
        siblings = len(self._webhooks) - len(self._owners)
        return max(shares.of_one_owner, shares.beyond_webhooks - siblings) - self._totals.beyond

    def _left_by_shares(self, webhook: SlotHolder, wanted: int, second: int) -> int:
        owner, own, free = webhook.owner, webhook.held, self._totals.free
        is_slow, is_unknown = webhook.late > 0 or webhook.is_fast is False, webhook.is_fast is None
        if own and is_unknown:
            return 0

        share = self._totals.further_free + (owner.held or 1)
        left_first = left = share - owner.held
        if (is_slow or is_unknown) and owner.webhooks >= share * SLOW_OF_SHARE:
            left_first = 0 if is_slow else int(share * UNKNOWN_OF_SHARE) - owner.held
        if not own:
            available = min(left_first, free - 1) if owner.held else free
            if available <= 0:
                return 0
            if is_unknown or wanted == 1:
                return 1

        first = 0 if own else 1
        further = min(self._left_beyond(webhook, second, is_slow=is_slow), min(left, free) - first - 1)
        if is_slow:
            further = min(further, own, left_first)  # at most twice as many, so that several grow evenly
        return first + max(0, further)

    def _left_beyond(self, webhook: SlotHolder, second: int, *, is_slow: bool) -> int:
        """Return how many more slots the webhook may hold beyond its first. Can be negative."""
        owner, shares, totals = webhook.owner, self._shares, self._totals
        beyond, of_owner = max(0, webhook.held - 1), owner.held - owner.webhooks
        is_alone = self._window - totals.free == webhook.held
        if is_alone:
            return shares.of_one_owner - beyond

        left = self._left_of_further
        has_other_owners = totals.holding > (1 if owner.held else 0)
        has_siblings = owner.webhooks > (1 if webhook.held else 0)
        if not has_other_owners:
            most = left - shares.for_other_owners
        else:
            most = (left + of_owner - (shares.beside_slow if is_slow else shares.beside_fast)) // 2 - of_owner
        if has_siblings:
            most = (most + beyond) // 2 - beyond
        in_use, left = webhook.slots_in_use(second), min(left, shares.of_one_owner - of_owner)
        to_earn = max(left - shares.for_few, min(left, FEW - beyond) if in_use < 2 * FEW else 0)
        return max(most, min(to_earn, in_use - beyond))

    def _hold(self, webhook: SlotHolder, number: int) -> None:
        """Count slots as held by this webhook, or as freed for a negative number."""
        owner, totals = webhook.owner, self._totals
        held, of_owner = webhook.held, owner.held
        webhook.held = held + number
        owner.held = of_owner + number
        totals.free -= number
        new_webhooks = (held + number > 0) - (held > 0)
        owner.webhooks += new_webhooks
        totals.beyond += number - new_webhooks
        new_owners = (of_owner + number > 0) - (of_owner > 0)
        totals.holding += new_owners
        totals.further_free -= number - new_owners
