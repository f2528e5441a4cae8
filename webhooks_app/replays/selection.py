"""Selection of a replay's events. It starts from the events, because some have no delivery."""

from __future__ import annotations

import logging
from collections.abc import Collection
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import BooleanField, ExpressionWrapper, Q

from ..database.sql import concerns_rows, kind_of
from ..models import Delivery, Event, Replay
from ..models.order import Order, order_of_creation
from ..protocol.ids import first_id_at, last_id_like, time_of
from ..routing import Reason, RoutedEvent, concerns
from ..routing.admission import OPERATIONAL_NAMES, ROUTED, events_for, lasting_refusal

logger = logging.getLogger("webhooks_app.replays")

LEAST_EVENTS, MOST_EVENTS = 100, 1000
"""Events per query. The size follows the number that can be queued."""

Outcome = Replay.Outcome
PENDING = Delivery.State.PENDING


class Row(NamedTuple):
    """An event in the time range of the replay."""

    event_id: str
    event_type: str
    owner_id: Any
    created_at: datetime
    can_be_sent: bool
    awaits_filter: bool = False
    """Whether a worker has still to evaluate the webhook's filter."""


class Match(NamedTuple):
    """An event to send, and its outcome so far."""

    event_id: str
    event_type: str
    created_at: datetime
    outcome: str
    first_delivery_id: str | None
    awaits_filter: bool = False


class Past(NamedTuple):
    """A summary of an event's deliveries to a webhook."""

    outcome: str
    """The state of the newest delivery, or "pending" if any delivery is pending."""
    first_delivery_id: str | None
    own_state: str | None
    """The state of the newest delivery queued by the replay itself, or None without one."""

    def is_wanted_in(self, states: Collection[str]) -> bool:
        if self.own_state is None:
            return self.outcome in states
        # The replay's delivery was cancelled with its webhook, and no later delivery exists.
        return self.own_state == self.outcome == Outcome.CANCELLED


NO_PAST = Past(Outcome.MISSED.value, None, None)


class Examined(NamedTuple):
    """The next events of the time range, and those to send."""

    examined: list[str]
    matches: list[Match]
    is_last: bool
    is_cut: bool = False

    def cut(self, limit: int) -> Examined:
        """Return a copy that ends with the match number ``limit``."""
        return self if len(self.matches) <= limit else _until(self, self.matches[limit - 1].event_id)

    def cut_in_order(self, limit: int) -> Examined:
        """Return a copy in the order of creation that ends with the millisecond of the match number ``limit``."""
        matches = sorted(self.matches, key=lambda match: order_of_creation(match.event_id, match.created_at))
        found = self._replace(matches=matches)
        return found if len(matches) <= limit else _until(found, last_id_like(matches[limit - 1].event_id))


def _until(found: Examined, last_id: str) -> Examined:
    matches = [match for match in found.matches if match.event_id <= last_id]
    if len(matches) == len(found.matches):
        return found
    examined = [event_id for event_id in found.examined if event_id <= last_id]
    return Examined(examined, matches, is_last=False, is_cut=True)


def look(using: str, replay: Replay, limit: int | None = None) -> Examined:
    """Return the events after the replay's cursor, with at most ``limit`` matches and the rest of a millisecond.

    Events with a pending delivery never match. Nor do events that this replay has already queued, unless their
    delivery was cancelled.

    Only a webhook with an order gets whole milliseconds, because identifiers of one are in random order.
    """
    size = MOST_EVENTS if limit is None else max(LEAST_EVENTS, min(MOST_EVENTS, 4 * limit))
    is_ordered = replay.webhook.order != Order.NONE
    rows = _events(using, replay)
    events = _read(rows[:size])
    is_last = len(events) < size
    if is_ordered and not is_last:
        last_id = events[-1].event_id
        events += _read(rows.filter(pk__gt=last_id, pk__lte=last_id_like(last_id)))
    wanted = _wanted(using, replay, events)
    pasts = _pasts(using, replay, [event.event_id for event in wanted])
    matches = [
        Match(
            event.event_id,
            event.event_type,
            event.created_at,
            past.outcome,
            past.first_delivery_id,
            event.awaits_filter,
        )
        for event in wanted
        if (past := pasts.get(event.event_id, NO_PAST)).is_wanted_in(replay.states)
    ]
    found = Examined([event.event_id for event in events], matches, is_last)
    if limit is None:
        return found
    return found.cut_in_order(limit) if is_ordered else found.cut(limit)


def _events(using: str, replay: Replay) -> Any:
    """Return the values of ``Row`` for the events of the time range, oldest first, read from an index."""
    rows = Event.objects.using(using).filter(
        events_for(replay.webhook), pk__gte=first_id_at("evt", replay.since), pk__lt=first_id_at("evt", replay.until)
    )
    if replay.cursor:
        rows = rows.filter(pk__gt=replay.cursor)
    can_be_sent = ExpressionWrapper(~Q(body="") & ROUTED, output_field=BooleanField())
    return (
        rows.order_by("pk")
        .annotate(can_be_sent=can_be_sent)
        .values_list("pk", "type", "owner_id", "created_at", "can_be_sent")
    )


def _read(rows: Any) -> list[Row]:
    """Return the rows. A damaged one, for example with a time that cannot be read, is logged and cannot be sent."""
    try:
        return [_row(values) for values in rows]
    except Exception as error:
        if not concerns_rows(error):
            raise
    unlimited = rows.all()
    unlimited.query.clear_limits()
    return [_read_alone(unlimited.filter(pk=pk), pk) for pk in rows.values_list("pk", flat=True)]


def _read_alone(row: Any, event_id: str) -> Row:
    try:
        return _row(row.get())
    except Exception as error:
        if not concerns_rows(error):
            raise
        return _damaged(event_id, error)


def _row(values: Any) -> Row:
    row = Row(*values)
    if row.created_at is None:
        raise ValueError("The time of the event cannot be read.")
    return row


def _damaged(event_id: str, error: Exception) -> Row:
    logger.error("Event %s is damaged and cannot be sent again: %s.", event_id, kind_of(error))
    return Row(event_id, "", None, time_of(event_id), can_be_sent=False)


def _wanted(using: str, replay: Replay, events: Collection[Row]) -> list[Row]:
    """Return the events for the webhook that have a requested type and can still be sent.

    Bodies are read only if the webhook has a filter, and for operational events, whose body names their subject.
    """
    asked_for = [
        event
        for event in events
        if event.can_be_sent and (not replay.event_types or event.event_type in replay.event_types)
    ]
    wanted = [event for event in asked_for if concerns(replay.webhook, _routed(event))]
    is_filtered = replay.webhook.filter is not None
    unsure = [event.event_id for event in wanted if is_filtered or event.event_type in OPERATIONAL_NAMES]
    bodies = Event.objects.using(using).filter(pk__in=unsure).only("type", "owner_id", "body") if unsure else ()
    refusals = {event.pk: _refusal(replay, event) for event in bodies}
    return [
        event._replace(awaits_filter=refusal is Reason.FILTER_PENDING)
        for event in wanted
        if (refusal := refusals.get(event.event_id)) in (None, Reason.FILTER_PENDING)
    ]


def _refusal(replay: Replay, event: Event) -> Reason | None:
    try:
        return lasting_refusal(replay.webhook, RoutedEvent.of(event))
    except Exception as error:
        if not concerns_rows(error):
            raise
        _damaged(event.pk, error)
        return Reason.NOT_RECORDED


def _routed(event: Row) -> RoutedEvent:
    return RoutedEvent(type=event.event_type, owner_id=event.owner_id)


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
