"""The slots of a worker, which check the rules of ``webhooks_app.delivery.slots`` by counts of their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Any

from webhooks_app.delivery.claim import Claim, ClaimRequest
from webhooks_app.delivery.slots import PROBE_SECONDS, SLOW_OF_SHARE, SlotHolder, Slots


class JudgedSlots(Slots):
    """Slots that call ``broke`` with a description of each broken rule, and ``note`` before each change."""

    def __init__(self, broke: Callable[[str], object], note: Callable[[JudgedSlots], object], **options: Any) -> None:
        super().__init__(**options)
        self._broke, self._note = broke, note

    def asks(self, webhook_ids: Collection[str], limit: int, monotonic: float) -> list[ClaimRequest]:
        self._note(self)
        found = super().asks(webhook_ids, limit, monotonic)
        if found and (problem := self._problem_with_counts() or self._problem_with_asks(found, monotonic)):
            self._broke(problem)
        return found

    def give_back(self, claims: Iterable[Claim]) -> None:
        self._note(self)
        super().give_back(claims)
        if problem := self._problem_with_counts():
            self._broke(problem)

    @property
    def beyond(self) -> int:
        """The number of slots that are held beyond the first of each webhook."""
        return self._totals.beyond

    def problem_when_idle(self) -> str:
        """Return what a worker without any request still holds, or ""."""
        if self._open.webhooks or self.free != self._window:
            return f"{len(self)} slots of an idle worker are held, and {self.free} of {self._window} are free"
        return self._problem_with_counts()

    def _problem_with_counts(self) -> str:
        """Compare each count with the claims that hold a slot."""
        held, late = Counter(self._open.webhooks.values()), Counter(map(self._open.webhooks.get, self._open.late))
        of_owners: Counter[Any] = Counter()
        for webhook, number in held.items():
            of_owners[webhook.owner] += number
        totals, number = self._totals, held.total()
        if totals.free + number != self._window or totals.free < 0:
            return f"{totals.free} free and {number} held slots are not the window of {self._window}"
        if totals.further_free != self._shares.beyond_owners - number + len(of_owners):
            return f"{totals.further_free} slots count as free for further ones, of {number} held"
        if totals.beyond != number - len(held) or totals.holding != len(of_owners):
            return f"{totals.beyond} slots count as further ones of a webhook, of {number} held"
        if None in late:
            return "a claim that has ended counts as late"
        for webhook in [*held, *self._webhooks.values()]:
            counted, real = (webhook.held, webhook.late), (held[webhook], late[webhook])
            if counted != real:
                return f"a webhook counts {counted[0]} slots, {counted[1]} of them late, not {real[0]} and {real[1]}"
        for owner in self._owners.values():
            if owner.held != of_owners[owner]:
                return f"an owner counts {owner.held} slots, not {of_owners[owner]}"
        return ""

    def _problem_with_asks(self, asks: Iterable[ClaimRequest], monotonic: float) -> str:
        """Apply the rules to each webhook in turn, as if those before it got all that they may claim."""
        shares, free, holding = self._shares, self.free, self._totals.holding
        beyond = self._totals.beyond
        owners = {owner: [owner.held, owner.webhooks] for owner in self._owners.values()}
        siblings = len(self._webhooks) - len(self._owners)
        for ask in asks:
            webhook = self._webhooks[ask.webhook_id]
            own, room, of_owner = webhook.held, ask.room, owners[webhook.owner]
            if ask.own != own:
                return f"{ask.webhook_id} claims as if it held {ask.own} slots, not {own}"
            share = shares.beyond_owners - (self._window - free - holding) + (of_owner[0] or 1)
            if problem := self._problem_with_one(webhook, room, free, share, of_owner[1], monotonic):
                return f"{ask.webhook_id} may take {room} slots beside {own}: {problem}"
            if free == room and of_owner[0]:
                return f"{ask.webhook_id} may take the last slot, but its owner holds {of_owner[0]}"
            holding += not of_owner[0]
            free -= room
            further = room - (not own)
            beyond += further
            of_owner[0] += room
            of_owner[1] += not own
            if self._window - free - holding > shares.beyond_owners:
                return f"{self._window - free - holding} slots beyond the first of each owner, of {self._window}"
            if further and beyond > max(shares.of_one_owner, shares.beyond_webhooks - siblings):
                return f"{beyond} slots beyond the first of each webhook, of {self._window}, with {siblings} siblings"
            if further and of_owner[0] - of_owner[1] > shares.of_one_owner:
                return f"an owner may hold {of_owner[0]} slots for {of_owner[1]} webhooks, of {self._window}"
        return ""

    def _problem_with_one(
        self, webhook: SlotHolder, room: int, free: int, share: int, webhooks: int, monotonic: float
    ) -> str:
        own, is_unknown = webhook.held, webhook.is_fast is None
        if not own:
            if webhook.is_slow and webhooks >= share * SLOW_OF_SHARE:
                return f"it is slow, and its owner has {webhooks} webhooks in a share of {share}"
            return "it is not known to be fast" if room > 1 and (is_unknown or webhook.is_slow) else ""
        if is_unknown and room > 1:
            return "it has no result yet"
        if is_unknown and free < self._window / 2:
            return f"it has no result yet, and {free} of {self._window} slots are free for probes"
        if is_unknown and monotonic < webhook.waits_since + PROBE_SECONDS:
            return "it has no result yet, and was probed just now"
        return "it is slow" if webhook.is_slow and room > own else ""


def slots_of(engine: Any) -> JudgedSlots:
    slots: JudgedSlots = engine._worker.slots
    return slots
