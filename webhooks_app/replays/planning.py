"""Planning of replays: which events they send, and the count before the start. A replay sends nothing until then.

The selection starts from the events, because some have no delivery.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.core.exceptions import ValidationError
from django.db.models import BooleanField, ExpressionWrapper, Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from ..database.sql import concerns_rows, having_ids, kind_of
from ..event_types import OPERATIONAL_NAMES
from ..exceptions import WebhookStateError
from ..models import Delivery, Event, Replay, Webhook, WebhookHealth
from ..models.audit import Action
from ..models.health import FailingPeriod, stopped_since
from ..models.keyset import WHOLE, Parts, created_within, limited, oldest_of, read_page
from ..models.replay import MOST_OPEN, missing_outcomes
from ..models.webhook import Order
from ..protocol.ids import first_id_at, last_id_like, order_of_creation, time_of
from ..protocol.json_data import format_time
from ..reasons import ReasonText
from ..routing import Reason, RoutedEvent, concerns, is_subscribed
from ..routing.admission import ROUTED, events_for, lasting_refusal

logger = logging.getLogger("webhooks_app.replays")

LEAST_EVENTS, MOST_EVENTS = 100, 1000
"""Events per query. The size follows the number that can be queued."""

Outcome = Replay.Outcome
PENDING = Delivery.State.PENDING
WEIGHTS: Mapping[str, int] = {PENDING.value: 2, Outcome.SUCCEEDED.value: 1}


class EventRow(NamedTuple):
    """An event in the time range of the replay."""

    event_id: str
    event_type: str
    owner_id: Any
    created_at: datetime
    can_be_sent: bool
    awaits_filter: bool = False
    """Whether a worker has still to evaluate the webhook's filter."""


class PastDelivery(NamedTuple):
    """A delivery of such an event."""

    pk: str
    event_id: str
    webhook_id: str
    state: str
    replay_id: str | None


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
    """The state of the newest delivery, but "pending" if any is pending, or else "succeeded" if any has succeeded."""
    newest_state: str
    first_delivery_id: str | None
    own_state: str | None
    """The state of the newest delivery queued by the replay itself or its siblings, or None without one."""

    def is_wanted_in(self, states: Collection[str]) -> bool:
        if self.own_state is None:
            return self.outcome in states
        # The replay's delivery was cancelled with its webhook, and no later delivery exists.
        return self.own_state == self.newest_state == Outcome.CANCELLED and self.outcome != PENDING


NO_PAST = Past(Outcome.MISSED.value, "", None, None)


class Examined(NamedTuple):
    """The next events of the time range, and those to send."""

    examined: list[str]
    matches: list[Match]
    is_last: bool
    is_cut: bool = False
    rows: int = 0
    """An upper bound of the rows read, if ``most`` was given: identifiers, events, bodies and deliveries."""

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


def look(
    using: str, replay: Replay, limit: int | None = None, *, size: int | None = None, most: int | None = None
) -> Examined:
    """Return the events after the replay's cursor, with at most ``limit`` matches and the rest of a millisecond.

    ``size`` is the number of events to examine. By default it follows ``limit``. Return no events if they have so many
    deliveries that more than ``most`` rows would be read.

    Events with a pending delivery never match. Nor do events that this replay has already queued, unless their
    delivery was cancelled.

    Only a webhook with an order gets whole milliseconds, because identifiers of one are in random order.
    """
    if size is None:
        size = MOST_EVENTS if limit is None else max(LEAST_EVENTS, min(MOST_EVENTS, 4 * limit))
    is_ordered = replay.webhook.order != Order.NONE
    examined = _next_ids(using, replay, size)
    is_last = len(examined) < size  # even if some of these events are pruned before their rows are read
    events = _read(_rows(having_ids(Event.objects.using(using), examined)))
    if is_ordered and not is_last:
        last_id = examined[-1]
        rest = Event.objects.using(using).filter(pk__gt=last_id, pk__lte=last_id_like(last_id))
        others = _read(_rows(rest.filter(events_for(replay.webhook))))
        events += others
        examined += [event.event_id for event in others]
    wanted, bodies = _wanted(using, replay, events)
    wanted_ids = [event.event_id for event in wanted]
    read = 0
    if most is None:
        deliveries = _deliveries(using, replay, wanted_ids)
    else:
        read = 2 * len(examined) + bodies
        to_all = _deliveries_to_all(using, wanted_ids, max(0, most - read))
        read += len(to_all)
        if read > most:
            return Examined([], [], is_last=False, rows=read)
        deliveries = [each for each in to_all if each.webhook_id == replay.webhook_id]
    pasts = _pasts(replay, deliveries)
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
    found = Examined(examined, matches, is_last, rows=read)
    if limit is None:
        return found
    return found.cut_in_order(limit) if is_ordered else found.cut(limit)


def _next_ids(using: str, replay: Replay, size: int) -> list[str]:
    """Return the next events that the webhook may get, oldest first. They are read from an index alone.

    For whole rows in a period with an end, PostgreSQL would read the events of all owners in it.
    """
    events: Any = Event.objects.using(using)
    rows = limited(events, "gt", replay.cursor) if replay.cursor else created_within(events, replay.since)
    owner_id, end = replay.webhook.owner_id, first_id_at("evt", replay.until)
    parts = WHOLE if owner_id is None else Parts("owner", [owner_id])
    return [pk for pk in oldest_of(rows, parts, size) if pk < end]


def _rows(events: Any) -> Any:
    """Return the values of ``EventRow`` for these events, oldest first."""
    can_be_sent = ExpressionWrapper(~Q(body="") & ROUTED, output_field=BooleanField())
    columns = ("pk", "type", "owner_id", "created_at", "can_be_sent")
    return events.order_by("pk").annotate(can_be_sent=can_be_sent).values_list(*columns)


def _read(rows: Any) -> list[EventRow]:
    """Return the rows. A damaged one, for example with a time that cannot be read, is logged and cannot be sent."""
    try:
        return [_row(values) for values in rows]
    except Exception as error:
        if not concerns_rows(error):
            raise
    return [_read_alone(rows.filter(pk=pk), pk) for pk in rows.values_list("pk", flat=True)]


def _read_alone(row: Any, event_id: str) -> EventRow:
    try:
        return _row(row.get())
    except Exception as error:
        if not concerns_rows(error):
            raise
        return _damaged(event_id, error)


def _row(values: Any) -> EventRow:
    row = EventRow(*values)
    if row.created_at is None:
        raise ValueError("The time of the event cannot be read.")
    return row


def _damaged(event_id: str, error: Exception) -> EventRow:
    logger.error("Event %s is damaged and cannot be sent again: %s.", event_id, kind_of(error))
    return EventRow(event_id, "", None, time_of(event_id), can_be_sent=False)


def _wanted(using: str, replay: Replay, events: Collection[EventRow]) -> tuple[list[EventRow], int]:
    """Return the events for the webhook that have a wanted type and can still be sent, and how many bodies were read.

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
    found = [
        event._replace(awaits_filter=refusal is Reason.FILTER_PENDING)
        for event in wanted
        if (refusal := refusals.get(event.event_id)) in (None, Reason.FILTER_PENDING)
    ]
    return found, len(refusals)


def _refusal(replay: Replay, event: Event) -> Reason | None:
    try:
        return lasting_refusal(replay.webhook, RoutedEvent.of(event))
    except Exception as error:
        if not concerns_rows(error):
            raise
        _damaged(event.pk, error)
        return Reason.NOT_RECORDED


def _routed(event: EventRow) -> RoutedEvent:
    return RoutedEvent(type=event.event_type, owner_id=event.owner_id)


def _deliveries(using: str, replay: Replay, event_ids: Collection[str]) -> list[PastDelivery]:
    """Return the deliveries of these events to the webhook, the oldest first."""
    if not event_ids:
        return []
    rows = Delivery.objects.using(using).filter(
        webhook=replay.webhook_id, event__in=event_ids, kind=Delivery.Kind.EVENT
    )
    return [PastDelivery(*values) for values in rows.order_by("pk").values_list(*PastDelivery._fields)]


def _deliveries_to_all(using: str, event_ids: Collection[str], most: int) -> list[PastDelivery]:
    """Return the deliveries of these events to any webhook, the oldest first, or more than ``most`` of them.

    No index has an event and a webhook, so that the database reads all deliveries of an event. Here their number is
    known. They are sorted here, because a database would read all of them for an order of its own.
    """
    rows = Delivery.objects.using(using).filter(event__in=event_ids, kind=Delivery.Kind.EVENT).order_by()
    found = rows.values_list(*PastDelivery._fields)[: most + 1] if event_ids else ()
    return sorted(PastDelivery(*values) for values in found)


def _pasts(replay: Replay, deliveries: Collection[PastDelivery]) -> dict[str, Past]:
    """Return the summary of each event that has such a delivery."""
    pasts: dict[str, Past] = {}
    own_ids = set(replay.siblings().values_list("pk", flat=True)) if deliveries else set()
    for delivery_id, event_id, _webhook_id, state, replay_id in deliveries:
        before = pasts.get(event_id, NO_PAST)
        pasts[event_id] = Past(
            max(state, before.outcome, key=_weight),
            state,
            before.first_delivery_id or delivery_id,
            state if replay_id in own_ids else before.own_state,
        )
    return pasts


def outcomes_of(replay: Replay, event_ids: Collection[str]) -> dict[str, str]:
    """Return the outcomes of these events at the webhook, or "pending". Those without a delivery are left out."""
    pasts = _pasts(replay, _deliveries(replay.alias, replay, event_ids))
    return {event_id: past.outcome for event_id, past in pasts.items()}


def _weight(outcome: str) -> int:
    """Return the weight of an outcome. The greatest one decides, or the newest of several."""
    return WEIGHTS.get(outcome, 0)


LOOK_BACK = timedelta(days=7)
MARGIN = timedelta(minutes=5)
"""Longer than the usual retries. A delivery queued shortly before the last success may have been given up after it."""

ONE_TICK = timedelta(milliseconds=1)


def plan_replay(
    webhook: Webhook,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    event_types: Sequence[str] = (),
    states: Sequence[str] | None = None,
    rate: float | None = None,
    requested_by: Any = None,
    starts_when_counted: bool = False,
    recovers_since: datetime | None = None,
) -> Replay:
    """Save a replay in the caller's transaction, with the webhook locked. It is counted next, and then started.

    With ``starts_when_counted``, whichever process completes the count starts it. Otherwise somebody has to.

    By default it covers the missed, given up and cancelled events of all subscribed types, since the beginning of the
    first failing period of the last week. Events before the creation of the webhook, or after now, are never included.
    A replay for a stopped webhook is counted too, but the webhook must be enabled before the start.

    Raise ValidationError for invalid fields. Raise WebhookStateError if the webhook is not subscribed to one of the
    types, or has too many unfinished replays.
    """
    using = webhook.alias
    _require_subscribed(webhook, event_types)
    _require_few(using, webhook)
    end = timezone.now() + ONE_TICK  # includes events of the current millisecond, the precision of identifiers
    since = since or missed_since(webhook)
    _require_order(since, until)
    begin = min(max(since, webhook.created_at), end)
    replay = Replay(
        webhook=webhook,
        since=begin,
        until=max(begin, min(until or end, end)),
        event_types=list(dict.fromkeys(event_types)),
        states=missing_outcomes() if states is None else list(dict.fromkeys(states)),
        rate=rate,
        requested_by=requested_by,
        starts_when_counted=starts_when_counted,
        recovers_since=recovers_since,
    )
    replay.failing = [
        period.as_json() for period in failing_periods(webhook, since=begin) if period.began_at < replay.until
    ]
    replay.full_clean()
    replay.save(using=using, force_insert=True)
    replay.audit_creation(Action.REPLAY_PLANNED)
    return replay


def _require_subscribed(webhook: Webhook, event_types: Sequence[str]) -> None:
    if others := [name for name in event_types if not is_subscribed(webhook, name)]:
        raise WebhookStateError(ReasonText("webhook_not_subscribed", id=webhook.id, types=", ".join(others)))


def _require_few(using: str, webhook: Webhook) -> None:
    if len(Replay.objects.using(using).filter(webhook=webhook).open()[:MOST_OPEN]) == MOST_OPEN:
        raise WebhookStateError(ReasonText("too_many_replays", id=webhook.id, number=MOST_OPEN))


def _require_order(since: datetime, until: datetime | None) -> None:
    if until is not None and until <= since:
        message = _("Give a time after %(since)s, when it begins.") % {"since": format_time(since)}
        raise ValidationError({"until": message})


def failing_periods(webhook: Webhook, *, since: datetime | None = None) -> list[FailingPeriod]:
    """Return the failing periods of a webhook that end after ``since``, in order.

    ``since`` is a week ago by default. A period without a later success is included even if it is older.
    """
    using = webhook.alias
    health = WebhookHealth.objects.using(using).filter(pk=webhook.pk).first() or WebhookHealth(webhook=webhook)
    if webhook.is_stopped and health.given_up_since is None:
        health.given_up_since = stopped_since(webhook)
    edge = since or timezone.now() - LOOK_BACK
    success_at = health.last_success_at
    return [
        period
        for period in health.failures()
        if period.ended_at is None or period.ended_at > edge or success_at is None or success_at < period.ended_at
    ]


def missed_since(webhook: Webhook) -> datetime:
    """Return the earliest time of possibly missed events: in the first failing period of the last week.

    Without a failing period it is a week ago. It is never before the creation of the webhook.
    """
    periods = failing_periods(webhook)
    since = min((_missed_from(webhook, period) for period in periods), default=timezone.now() - LOOK_BACK)
    return max(since, webhook.created_at)


def _missed_from(webhook: Webhook, period: FailingPeriod) -> datetime:
    """Return the earliest time of possibly missed events in a failing period.

    A success after the beginning of the period does not count, even if its delivery was queued before.
    """
    last = _last_success_before(webhook, period.began_at)
    return min(last, period.missed_from - MARGIN) if period.missed_from is not None else last


def _last_success_before(webhook: Webhook, moment: datetime) -> datetime:
    """Return a time shortly before the last success that was recorded before ``moment``."""
    rows = Delivery.objects.using(webhook.alias).filter(webhook=webhook)
    rows = rows.filter(pk__lt=first_id_at("dlv", moment))
    successes = rows.filter(state=Delivery.State.SUCCEEDED, kind=Delivery.Kind.EVENT, finished_at__lt=moment)
    page = read_page(successes, scope=rows, size=1)
    if page.rows:
        return time_of(page.rows[0].pk) - MARGIN
    # The read rows contain no success, so earlier deliveries were given up too.
    return time_of(page.older.digits) if page.older else webhook.created_at
