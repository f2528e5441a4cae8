"""Which events a replay is about: led by the events, so that those are found too that were never queued."""

from __future__ import annotations

import json
from collections.abc import Collection
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import BooleanField, ExpressionWrapper, Q

from ..event_types.operational import OPERATIONAL_EVENT_TYPES
from ..ids import first_id_at
from ..models import Delivery, Event, Replay

LEAST_EVENTS, MOST_EVENTS = 100, 1000
"""To a look: no more than are likely to be needed, where only some of them can be queued."""

Outcome = Replay.Outcome
PENDING = Delivery.State.PENDING
OPERATIONAL = frozenset(event_type.name for event_type in OPERATIONAL_EVENT_TYPES)


class Match(NamedTuple):
    """An event to send, and what became of it so far."""

    event_id: str
    event_type: str
    created_at: datetime
    outcome: str
    first_delivery_id: str | None


class Past(NamedTuple):
    """What the deliveries of an event to a webhook come to."""

    outcome: str
    """The state of the newest, or "pending" where any of them is."""
    first_delivery_id: str | None
    own_state: str | None
    """Of the newest that the replay itself has queued; None where it has queued none."""

    def is_wanted_in(self, states: Collection[str]) -> bool:
        if self.own_state is None:
            return self.outcome in states
        # What it queued was cancelled with its webhook, and nobody has sent it since.
        return self.own_state == self.outcome == Outcome.CANCELLED


NO_PAST = Past(Outcome.MISSED.value, None, None)


class Look(NamedTuple):
    """The next events of a replay's time: how many they are, where they end, and which of them are to be sent."""

    examined: list[str]
    matches: list[Match]
    is_last: bool
    is_cut: bool = False

    def cut(self, limit: int) -> Look:
        """Return the same up to the last of ``limit`` matches."""
        if len(self.matches) <= limit:
            return self
        matches = self.matches[:limit]
        end = self.examined.index(matches[-1].event_id) + 1
        return Look(self.examined[:end], matches, is_last=False, is_cut=True)


def look(using: str, replay: Replay, limit: int | None = None) -> Look:
    """Return what comes after the replay's cursor, with at most ``limit`` events that are to be sent.

    Never to be sent is an event with a delivery that is pending, nor what this replay has queued already, unless that
    was cancelled.
    """
    size = MOST_EVENTS if limit is None else max(LEAST_EVENTS, min(MOST_EVENTS, 4 * limit))
    events = list(_events(using, replay)[:size])
    types = set(replay.wanted_types)
    wanted = [event for event in events if event[1] in types and event[3]]
    about_itself = _about_itself(using, replay, wanted)
    wanted = [event for event in wanted if event[0] not in about_itself]
    pasts = _pasts(using, replay, [event_id for event_id, *_ in wanted])
    matches = [
        Match(event_id, event_type, created_at, past.outcome, past.first_delivery_id)
        for event_id, event_type, created_at, _ in wanted
        if (past := pasts.get(event_id, NO_PAST)).is_wanted_in(replay.states)
    ]
    found = Look([event_id for event_id, *_ in events], matches, len(events) < size)
    return found if limit is None else found.cut(limit)


def _events(using: str, replay: Replay) -> Any:
    """Return the events of the time by an index, oldest first: id, type, time, and whether they can be sent."""
    rows = Event.objects.using(using).filter(
        pk__gte=first_id_at("evt", replay.since), pk__lt=first_id_at("evt", replay.until)
    )
    if replay.webhook.owner_id is not None:  # the platform's own webhooks get everybody's
        rows = rows.filter(owner=replay.webhook.owner_id)
    if replay.cursor:
        rows = rows.filter(pk__gt=replay.cursor)
    can_be_sent = ExpressionWrapper(~Q(body="") & Q(is_test=False), output_field=BooleanField())
    return rows.order_by("pk").annotate(can_be_sent=can_be_sent).values_list("pk", "type", "created_at", "can_be_sent")


def _about_itself(using: str, replay: Replay, events: Collection[tuple[Any, ...]]) -> set[str]:
    """Return those of our own events that tell of the very webhook, which it never gets."""
    ids = [event_id for event_id, event_type, *_ in events if event_type in OPERATIONAL]
    rows = Event.objects.using(using).filter(pk__in=ids).values_list("pk", "body") if ids else ()
    return {pk for pk, body in rows if json.loads(body)["data"].get("webhook_id") == replay.webhook_id}


def _pasts(using: str, replay: Replay, event_ids: Collection[str]) -> dict[str, Past]:
    pasts: dict[str, Past] = {}
    if not event_ids:
        return pasts
    rows = Delivery.objects.using(using).filter(
        webhook=replay.webhook_id, event__in=event_ids, kind=Delivery.Kind.EVENT
    )
    for delivery_id, event_id, state, replay_id in rows.order_by("pk").values_list(
        "pk", "event_id", "state", "replay_id"
    ):
        before = pasts.get(event_id, NO_PAST)
        pasts[event_id] = Past(
            before.outcome if before.outcome == PENDING else state,
            before.first_delivery_id or delivery_id,
            state if replay_id == replay.pk else before.own_state,
        )
    return pasts
