"""The schedule of looks: from what happened, it decides what a worker asks of the queue next, and when.

A *look* is a query for due deliveries and the claim that follows it. Everything here is a frozen value: an event, or
the answer to a look, makes a new ``Schedule``. It knows neither a database nor a thread, and reads no clock, so that a
test can try any history.

A look is due when the worker is woken, at the times of retries, every few ms while it lingers, and at each sweep. A
notification that names webhooks makes only a claim from these due. Apply events during a look after ``after``, because
the look may have missed them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import NamedTuple

from .claim import Claim

LINGER_SECONDS = 0.25
"""How long an idle worker continues to look, so that new work need not wake it. If the database notifies of commits,
and the last claim left nothing, it looks only once after this time, as a precaution."""

LOOK_EVERY_SECONDS = 0.005
LOOK_EVERY_SECONDS_LISTENING = 0.05
"""The same if the database notifies of commits, and the last claim may have left something."""

LOOK_SHARE = 0.1
"""Maximum share of a lingering worker's time for looks. Slow looks are therefore less frequent."""

UNNOTIFIED_SECONDS = 0.1
"""How long a process suspends notifications after announcing it."""

MANY = 64
"""Size of a claim above which its webhooks are assumed to have more due deliveries."""

PAGE_AT_LEAST_EVERY_SECONDS = 0.05
"""How long claims may come from the webhooks of the last large one, without a search for others."""

SEEK_LOST_EVERY_SECONDS = 1.0
"""Interval of searches for lost claims of webhooks without free slots. A dead worker makes one due at once."""

PUBLISH_AFTER_SECONDS = 0.1
"""How long other workers may see too many claims of a webhook. This is safe, but delays them."""

ASK_AGAIN_AFTER_SECONDS = (0.0, 5.0)
"""When to ask for the claims of a look that failed. A server may commit it after the connection has failed."""

SKIPPED_FOR, SKIPPED_FOR_AT_MOST = timedelta(seconds=5), timedelta(minutes=5)
"""How long a worker skips a webhook with unreadable keys or rows. It doubles each time."""

FREED_WITHIN = timedelta(seconds=1)
"""Margin for the clocks of all workers: the next delivery of a group is not due earlier before the attempt's end."""

MAX_MOMENTS = 500
"""Times of retries that a worker remembers. A look at one of them finds when the next one is due."""

NO_NAMES: Mapping[str, datetime | None] = MappingProxyType({})


class Now(NamedTuple):
    """A time by both clocks: the database's, which decides what is due, and the monotonic one, for all waits."""

    at: datetime
    monotonic: float

    def later(self, monotonic: float) -> Now:
        """Return the later time at which the monotonic clock shows this."""
        return Now(self.at + timedelta(seconds=monotonic - self.monotonic), monotonic)


class Look(NamedTuple):
    """What a worker asks of the queue."""

    now: Now
    """The time of everything that is claimed."""
    latest: datetime
    """An upper bound of the database's time."""
    limit: int
    """The most deliveries to claim."""
    with_lost: bool = False
    """Whether lost claims of the webhooks with free slots are included."""
    named: Mapping[str, datetime | None] = NO_NAMES
    """The webhooks to claim from without a search, with the earliest due time to read, if any."""
    busy: Sequence[str] = ()
    """The webhooks to try before a search for others."""
    page_end: str | None = None
    """The webhook after which the search continues; None for the first one."""
    skipped: Collection[str] = ()
    """The webhooks that are left alone."""
    unreadable: Collection[str] = ()
    """Those among them with unreadable rows or keys, of which nothing is cancelled either."""
    seeks_lost: bool = False
    """Whether lost claims of the webhooks without free slots are included too."""


class Found(NamedTuple):
    """What the queue answers to a look."""

    claims: Sequence[Claim] = ()
    lost: Sequence[Claim] = ()
    """Claims of attempts without a result, which are only recorded."""
    left: bool = False
    """Whether due deliveries may remain: without a free slot, behind another worker's lock or on further pages."""
    is_full: bool = False
    """Whether the claim reached its limit. A pause would not make the next one larger."""
    page_end: str | None = None
    """The webhook after which the search is to continue; None if it reached the end."""
    has_paged: bool = False
    """Whether webhooks were searched for."""
    moments: Sequence[datetime] = ()
    """When something that the look had to leave is due."""
    next_at: datetime | None = None
    """The earliest time at which another delivery of the webhooks found is due."""
    slow_again_at: float | None = None
    """When slow or hanging webhooks that were left out may begin requests (monotonic)."""
    paced: Mapping[str, datetime] = MappingProxyType({})
    """Webhooks at their rate limit, with the time until which they are left alone."""
    unreadable: Sequence[str] = ()
    """Webhooks with a row that cannot be used."""
    may_be_unacknowledged: bool = False
    """Whether a statement failed whose claims may have been committed."""
    has_cancelled: bool = False
    """Whether claims were cancelled at once, so that other workers see too many."""


class Skip(NamedTuple):
    """The time until which a webhook is left alone, and its length."""

    until: datetime
    span: timedelta


class Schedule(NamedTuple):
    """When and how a worker looks next. Each method returns a new one."""

    sweep_seconds: float
    is_listening: bool = False
    """Whether the database notifies of commits."""
    is_asked_for: bool = False
    """Whether a look is due now."""
    next_look_at: float = 0.0
    linger_until: float = 0.0
    often_until: float = 0.0
    """The end of a time without notifications."""
    names: Mapping[str, datetime | None] = NO_NAMES
    """Webhooks to claim from now, with the earliest due time to read, if any."""
    moments: tuple[datetime, ...] = ()
    """When deliveries become due, in order."""
    has_later_moments: bool = False
    """Whether deliveries may become due at times that this worker does not remember, and that looks have to find."""
    page_end: str | None = None
    paged_at: float = 0.0
    busy: Sequence[str] = ()
    """The webhooks of the last claim if it was a large one."""
    served: Collection[str] = ()
    """The webhooks of the last claim."""
    left: bool = False
    """Whether the last claim may have left something that waits for a slot."""
    found_nothing: bool = False
    """Whether the last look found nothing due, and no result since has made a delivery due."""
    paced: Mapping[str, datetime] = MappingProxyType({})
    skips: Mapping[str, Skip] = MappingProxyType({})
    seek_lost_at: float = 0.0
    publish_at: float = float("inf")
    unacknowledged: tuple[tuple[float, datetime], ...] = ()
    """When to ask for the claims of failed looks (monotonic), with the times of these looks."""

    # What happens.

    def woken(self, now: Now) -> Schedule:
        """A message or a failed query makes a look due. Others follow, because the sender may commit again."""
        return self._replace(is_asked_for=True, linger_until=now.monotonic + LINGER_SECONDS)

    def asked(self, _now: Now) -> Schedule:
        """New work, or free slots, make a look due."""
        return self._replace(is_asked_for=True)

    def listening(self, now: Now) -> Schedule:
        """The database notifies of commits from now on. One of the last ones may have suspended notifications."""
        return self._replace(is_listening=True).named(now, (), more_follow=True)

    def named(self, now: Now, webhook_ids: Iterable[str], *, more_follow: bool = False) -> Schedule:
        """A notification makes a claim from these webhooks due, or a look without any.

        With ``more_follow``, the sender commits so often that it suspends its notifications.
        """
        names = dict.fromkeys(webhook_ids)
        changes = self
        if more_follow:
            soon = now.monotonic + LOOK_EVERY_SECONDS
            changes = self._replace(often_until=soon + UNNOTIFIED_SECONDS, next_look_at=min(self.next_look_at, soon))
        if not names:
            return changes._replace(is_asked_for=True)
        return changes._replace(names={**names, **self.names})

    def recorded(
        self, now: Now, *, retries: Sequence[datetime] = (), freed: Sequence[tuple[str, datetime]] = ()
    ) -> Schedule:
        """Results were recorded: slots are free, ``retries`` are due, and so is the next of each ``freed`` group.

        ``freed`` has the webhooks of these groups, each with the end of the attempt.
        """
        names = dict(self.names) if freed else self.names
        for webhook_id, ended_at in freed:
            since = ended_at - FREED_WITHIN
            names[webhook_id] = min(since, names.get(webhook_id) or since)  # type: ignore[index]
        changes = self.expecting(now, retries) if retries else self
        return changes._replace(
            names=names,
            found_nothing=self.found_nothing and not (retries or freed or self.left),
            is_asked_for=self.is_asked_for or bool(retries) or self.left,  # a retry may have a notice, which is due now
            publish_at=min(self.publish_at, now.monotonic + PUBLISH_AFTER_SECONDS),
        )

    def released(self, now: Now, due_at: datetime | None = None) -> Schedule:
        """Unsent claims were released, due at this time or now."""
        changes = self if due_at is None else self.expecting(now, [due_at])
        return changes._replace(
            is_asked_for=True, publish_at=min(self.publish_at, now.monotonic + PUBLISH_AFTER_SECONDS)
        )

    def expecting(self, _now: Now, moments: Iterable[datetime]) -> Schedule:
        """Deliveries become due at these times."""
        found = sorted({*self.moments, *moments})
        has_later = self.has_later_moments or len(found) > MAX_MOMENTS
        return self._replace(moments=tuple(found[:MAX_MOMENTS]), has_later_moments=has_later)

    def doubting(self, now: Now, look: Look) -> Schedule:
        """Claims of this look may have been committed without an acknowledgement."""
        new = [(now.monotonic + after, look.now.at) for after in ASK_AGAIN_AFTER_SECONDS]
        return self._replace(unacknowledged=tuple(sorted({*self.unacknowledged, *new})))

    def bereaved(self, now: Now) -> Schedule:
        """Another worker is dead. A look includes the lost claims of all webhooks."""
        return self.woken(now)._replace(seek_lost_at=0.0)

    def skipping(self, now: Now, webhook_ids: Iterable[str]) -> Schedule:
        """This worker cannot sign for these webhooks, or read their rows, and skips them for a growing time."""
        forgotten = now.at - SKIPPED_FOR_AT_MOST
        skips = {pk: skip for pk, skip in self.skips.items() if skip.until > forgotten}
        for webhook_id in webhook_ids:
            last = skips.get(webhook_id, Skip(now.at, SKIPPED_FOR / 2))
            if last.until <= now.at:
                span = min(last.span * 2, SKIPPED_FOR_AT_MOST)
                skips[webhook_id] = Skip(now.at + span, span)
        return self._replace(skips=skips)

    # What to do next.

    def next(self, now: Now, *, limit: int, with_lost: bool) -> Look | None:
        """Return the look that is due, or None. A notification's has no lost claims."""
        is_moment_due = bool(self.moments) and self.moments[0] <= now.at
        if self.is_asked_for or is_moment_due or now.monotonic >= self.next_look_at:
            seeks_lost = with_lost and now.monotonic >= self.seek_lost_at
            may_skip_page = not seeks_lost and now.monotonic - self.paged_at < PAGE_AT_LEAST_EVERY_SECONDS
            unreadable = self.unreadable(now)
            skipped = {*unreadable, *self._paced(now)} if self.paced else unreadable
            busy = [pk for pk in self.busy if pk not in unreadable] if may_skip_page else ()
            return Look(now, now.at, limit, with_lost, NO_NAMES, busy, self.page_end, skipped, unreadable, seeks_lost)
        if not self.names:
            return None
        unreadable = self.unreadable(now)
        skipped = {*unreadable, *self.paced} if self.paced else unreadable
        return Look(now, now.at, limit, named=self.names, page_end=self.page_end, skipped=skipped)

    def after(self, look: Look, found: Found, now: Now) -> Schedule:
        """Return the schedule after a look that ended ``now``. Everything due before it is done."""
        served = {claim.webhook_id for claim in found.claims}
        served.update([claim.webhook_id for claim in found.lost])
        paced: Mapping[str, datetime] = self.paced
        if paced or found.paced:
            paced = {**self._paced(look.now), **found.paced}
        left = found.left
        changes = self
        if found.unreadable:
            changes = changes.skipping(look.now, found.unreadable)
        if found.may_be_unacknowledged:
            changes = changes.doubting(now, look)
        if look.named:
            # Whatever these webhooks had, what the last search left waits for a slot. And the deliveries of a
            # notification may have been claimed before it arrived.
            left = left or self.left
            is_complete = not left and not look.named.keys() - served - set(self.served)
            next_look_at = min(self.next_look_at, now.monotonic + _next_look(is_complete=is_complete))
            changes = changes._replace(names=NO_NAMES, next_look_at=next_look_at)
        else:
            changes = _after_search(changes, look, found, now)
        # What the look had to leave: at a rate limit, as slow webhooks, or because it is due soon.
        moments = [*paced.values(), *found.moments]
        if found.slow_again_at is not None:
            moments.append(look.now.later(found.slow_again_at).at)
        changes = changes._replace(paced=paced, served=served, left=left)
        if found.has_cancelled:
            changes = changes._replace(publish_at=min(self.publish_at, now.monotonic + PUBLISH_AFTER_SECONDS))
        return changes.expecting(now, [min(moments)]) if moments else changes

    def failed(self, now: Now, look: Look) -> Schedule:
        """Return the schedule after a look that raised an exception. Its claims may have been committed."""
        return self.doubting(now, look).woken(now)

    def pause_seconds(self, now: Now, *, has_room: bool) -> float:
        """Return the seconds until there is something to do: a look, if there is room for it, or another statement."""
        until = min(self.publish_at, self.unacknowledged[0][0]) if self.unacknowledged else self.publish_at
        if has_room:
            if self.is_asked_for or self.names:
                return 0.0
            until = min(until, self.next_look_at)
            if self.moments:
                until = min(until, now.monotonic + (self.moments[0] - now.at).total_seconds())
        return min(self.sweep_seconds, max(0.0, until - now.monotonic))

    @property
    def has_freed(self) -> bool:
        """Whether a recorded result has made a delivery due that is not claimed yet."""
        return any(since is not None for since in self.names.values())

    def without_freed(self) -> Schedule:
        """Return the schedule of a worker that leaves these deliveries to others."""
        return self._replace(names={pk: None for pk, since in self.names.items() if since is None})

    def published(self) -> Schedule:
        return self._replace(publish_at=float("inf"))

    def unreadable(self, now: Now) -> Collection[str]:
        """Return the webhooks that are skipped, because this worker cannot read their rows or keys."""
        return {pk for pk, skip in self.skips.items() if skip.until > now.at} if self.skips else ()

    def claimed_unacknowledged(self, now: Now) -> datetime | None:
        """Return the time of a failed look whose claims are to be released now, if they were committed."""
        if self.unacknowledged and self.unacknowledged[0][0] <= now.monotonic:
            return self.unacknowledged[0][1]
        return None

    def without_unacknowledged(self, now: Now) -> Schedule:
        """Return the schedule after the release of the first one."""
        return self._replace(unacknowledged=self.unacknowledged[1:]).released(now)

    def _paced(self, now: Now) -> dict[str, datetime]:
        return {pk: until for pk, until in self.paced.items() if until > now.at}


def _after_search(schedule: Schedule, look: Look, found: Found, now: Now) -> Schedule:
    """Return the schedule after a look at all webhooks, as opposed to named ones."""
    has_claims, numbers = bool(found.claims or found.lost), len(found.claims) + len(found.lost)
    was_due = bool(schedule.moments) and schedule.moments[0] <= look.now.at
    linger_until = schedule.linger_until
    if has_claims:
        linger_until = now.monotonic + LINGER_SECONDS
    elif was_due:
        linger_until = max(linger_until, look.now.monotonic + LINGER_SECONDS)
    has_later = schedule.has_later_moments and (found.left or found.next_at is not None)
    changes = schedule._replace(
        is_asked_for=False,
        names=NO_NAMES,  # included in the look
        moments=tuple([moment for moment in schedule.moments if moment > look.now.at]) if was_due else schedule.moments,
        has_later_moments=has_later,
        linger_until=linger_until,
        next_look_at=_next_look_at(schedule, look, found, now, linger_until),
        found_nothing=not has_claims and not found.moments,
        page_end=found.page_end,
        paged_at=look.now.monotonic if found.has_paged else schedule.paged_at,
        busy=list(dict.fromkeys([claim.webhook_id for claim in found.claims])) if numbers >= MANY else (),
        seek_lost_at=now.monotonic + SEEK_LOST_EVERY_SECONDS if look.seeks_lost else schedule.seek_lost_at,
    )
    return changes.expecting(now, [found.next_at]) if has_later and found.next_at is not None else changes


def _next_look_at(schedule: Schedule, look: Look, found: Found, now: Now, linger_until: float) -> float:
    is_complete = not found.left and not found.moments
    # Only a look that starts after the suspension finds all commits of that time.
    is_unnotified = look.now.monotonic < schedule.often_until
    often = is_unnotified or not schedule.is_listening
    every = LOOK_EVERY_SECONDS if often else _next_look(is_complete=is_complete)
    soon = now.monotonic + max(every, (now.monotonic - look.now.monotonic) / LOOK_SHARE)
    if is_unnotified:
        return min(soon, max(now.monotonic + LOOK_EVERY_SECONDS, schedule.often_until))
    return soon if now.monotonic < linger_until else now.monotonic + schedule.sweep_seconds


def _next_look(*, is_complete: bool) -> float:
    return LINGER_SECONDS if is_complete else LOOK_EVERY_SECONDS_LISTENING
