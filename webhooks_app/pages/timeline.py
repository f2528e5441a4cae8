"""The timeline of an event: the attempts, retry notices and redeliveries of each webhook, in words.

``timeline_of`` returns plain values, which ``parts/timeline.html`` renders as a table, and as the chart of
``timeline_chart``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain, starmap
from typing import Any, NamedTuple, TypeAlias

from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext, ngettext

from ..models import Delivery, DeliveryAttempt, Event
from ..models.delivery import DeliveryQuerySet
from ..models.hold import SILENT, Hold, HoldReason, holds_of
from ..protocol.ids import first_id_at, time_of
from .display import LISTED, NO_VALUE, TONES, DeliveryUrl, attempt_in_words, attempts_with, grouped
from .explanation import ended_at, why_cancelled
from .recipients import BEST_FIRST, Recipients
from .timeline_chart import Timeline, TimelineStep, after, lane_of, positions, ticks

MAX_DELIVERIES_READ = 5000
"""Maximum number of deliveries that are read to choose the webhooks to show."""

MAX_LANES, MAX_PER_LANE, MAX_DELIVERIES, MAX_ATTEMPTS = 20, 10, 100, 500
"""Maximum number of webhooks, of deliveries to one and to all of them, and of attempts that are shown."""

NOTICED_WITHIN = timedelta(seconds=1)
"""Time after the end of an attempt in which its notice is queued."""

MAX_NOTICED, MAX_CANDIDATES = 40, 2000
"""Maximum number of attempts whose notices are sought, and of deliveries that are examined for this."""

State: TypeAlias = Delivery.State


class Read(NamedTuple):
    """The facts about a delivery by which the webhooks to show are chosen."""

    pk: str
    webhook_id: str
    state: str


class LaneRecipient(NamedTuple):
    """A webhook that the event has deliveries to: the first one and the latest others."""

    state: State
    """The best of their states, because a redelivery may have succeeded."""
    delivery_ids: Sequence[str]


def deliveries_read(deliveries: DeliveryQuerySet) -> list[Read]:
    """Return the deliveries of an event, in order. Of a large number only some are read."""
    return sorted(starmap(Read, deliveries.order_by().values_list("pk", "webhook_id", "state")[:MAX_DELIVERIES_READ]))


def by_id(deliveries: DeliveryQuerySet, ids: Sequence[str]) -> DeliveryQuerySet:
    """Return those of the deliveries read before, without the condition that found them, for the same reader.

    With both conditions, a database may read all deliveries of the event again.
    """
    rows = Delivery.objects.filter(pk__in=ids).select_related("webhook__lane", "queue_entry").order_by("-pk")
    return rows.for_owner() if deliveries.is_for_owner else rows


def timeline_of(
    event: Event, deliveries: DeliveryQuerySet, read: Sequence[Read], *, url: DeliveryUrl
) -> Timeline | None:
    """Return the timeline of an event, or None without deliveries.

    ``deliveries`` are those of the event that the user may see, and ``read`` the result of ``deliveries_read``. ``url``
    returns the URL of a delivery's page. The cost is limited, regardless of the number of webhooks.
    """
    recipients = _recipients(read)
    loaded = _loaded(deliveries, recipients[:MAX_LANES])
    if not loaded:
        return None
    shown, lanes = [recipient for recipient, _lane in loaded], [lane for _recipient, lane in loaded]
    began = time_of(event.pk)
    emitted = TimelineStep(kind="emitted", what=gettext("Emitted"), at=began)
    by_lane = [_in_order(steps, began) for steps in _steps(event, lanes, url=url)]
    x_of = positions({at for step in chain(*by_lane) for at in (step.at, step.until) if at is not None} | {began})
    return Timeline(
        steps=_in_order([emitted, *chain(*by_lane)], began),
        lanes=[
            lane_of(number, lane[-1], recipient.state, steps, x_of, began)
            for number, (recipient, lane, steps) in enumerate(zip(shown, lanes, by_lane, strict=True))
        ],
        ticks=ticks(x_of, began),
        description=_description(recipients),
        cut_short=_cut_short(len(lanes), len(recipients), is_whole=len(read) < MAX_DELIVERIES_READ),
    )


def _recipients(read: Iterable[Read]) -> list[LaneRecipient]:
    """Return the recipients, beginning with those that did not get the event."""
    ids: dict[str, list[str]] = {}
    best = Recipients()
    for pk, webhook_id, state in read:
        ids.setdefault(webhook_id, []).append(pk)
        best.add(webhook_id, state)
    reached = [
        LaneRecipient(State(best.states[webhook_id]), [each[0], *each[1:][1 - MAX_PER_LANE :]])
        for webhook_id, each in ids.items()
    ]
    return sorted(reached, key=lambda recipient: -BEST_FIRST.index(recipient.state))


def _loaded(
    deliveries: DeliveryQuerySet, recipients: Sequence[LaneRecipient]
) -> list[tuple[LaneRecipient, list[Delivery]]]:
    """Return the recipients whose deliveries still exist, each with its deliveries in order."""
    ids = [pk for recipient in recipients for pk in recipient.delivery_ids][:MAX_DELIVERIES]
    loaded = {delivery.pk: delivery for delivery in by_id(deliveries, ids)}
    lanes = [(each, [loaded[pk] for pk in each.delivery_ids if pk in loaded]) for each in recipients]
    return [(recipient, lane) for recipient, lane in lanes if lane]


def _steps(event: Event, lanes: Sequence[Sequence[Delivery]], *, url: DeliveryUrl) -> list[list[TimelineStep]]:
    """Return the steps of each lane."""
    deliveries = list(chain(*lanes))
    attempts = _attempts(deliveries)
    notices = _notices(event, list(chain(*attempts.values())), url=url)
    pending = [delivery for delivery in deliveries if delivery.state == State.PENDING]
    holds = dict(zip([delivery.pk for delivery in pending], holds_of(pending, now=timezone.now()), strict=True))
    return [
        [
            *chain(*(_of_delivery(each, attempts.get(each.pk, ()), holds.get(each.pk), url=url) for each in lane)),
            *notices.get(lane[0].webhook_id, ()),
        ]
        for lane in lanes
    ]


def _attempts(deliveries: Sequence[Delivery]) -> dict[str, list[DeliveryAttempt]]:
    """Return the attempts of each delivery, by its ID, with the facts that the timeline shows to the same reader."""
    of = {delivery.pk: delivery for delivery in deliveries}
    rows = DeliveryAttempt.objects.filter(delivery__in=of).order_by("delivery", "number")
    attempts: dict[str, list[DeliveryAttempt]] = {}
    for attempt in attempts_with(rows.values(*LISTED, "started_at")[:MAX_ATTEMPTS], of):
        attempts.setdefault(attempt.delivery_id, []).append(attempt)
    return attempts


def _of_delivery(
    delivery: Delivery, attempts: Sequence[DeliveryAttempt], hold: Hold | None, *, url: DeliveryUrl
) -> Iterator[TimelineStep]:
    about: dict[str, Any] = {"url": url(delivery.pk), "sent_to": delivery.webhook.url}
    if delivery.redelivery_of_id or delivery.replay_id or delivery.purpose:
        what = gettext("Sent again by a replay") if delivery.replay_id else gettext("Redelivered")
        what = gettext("Recovery attempt") if delivery.purpose else what
        yield TimelineStep(kind="again", what=what, at=delivery.created_at, **about)
    for attempt in attempts:
        yield _of_attempt(attempt, **about)
    tone = TONES[State(delivery.state)]
    if delivery.state == State.PENDING:
        if hold is None or hold.reason not in SILENT:
            at = hold.until if hold and hold.reason == HoldReason.NOT_DUE else None
            yield TimelineStep(kind="next", what=_waiting(hold), at=at, tone=tone, **about)
    elif delivery.state == State.CANCELLED:
        what = gettext("Cancelled: %(reason)s") % {"reason": why_cancelled(delivery)}
        yield TimelineStep(kind="end", what=what, at=delivery.finished_at, tone=tone, **about)
    elif delivery.state == State.GIVEN_UP or not attempts:
        yield TimelineStep(
            kind="end", what=str(delivery.get_state_display()), at=delivery.finished_at, tone=tone, **about
        )


def _of_attempt(attempt: DeliveryAttempt, *, url: str, sent_to: str) -> TimelineStep:
    facts = [attempt_in_words(attempt)]
    if attempt.response_status and attempt.result != DeliveryAttempt.Result.HTTP_STATUS:
        facts.append(str(attempt.response_status))
    if attempt.duration_ms is not None:
        facts.append(f"{grouped(attempt.duration_ms)}\N{NO-BREAK SPACE}ms")
    what = gettext("Attempt %(number)d: %(facts)s") % {"number": attempt.number, "facts": ", ".join(facts)}
    return TimelineStep(
        kind="attempt",
        what=what,
        at=attempt.started_at,
        until=_end(attempt),
        tone="good" if attempt.result == DeliveryAttempt.Result.SUCCEEDED else "bad",
        label=str(attempt.response_status or NO_VALUE),
        url=url,
        sent_to=attempt.url or sent_to,
    )


def _end(attempt: DeliveryAttempt) -> datetime | None:
    """Return the end of an attempt, or None if the user may not see it."""
    is_hidden = attempt.delivery.is_for_owner and attempt.is_masked
    return None if is_hidden else ended_at(attempt)


def _waiting(hold: Hold | None) -> str:
    if hold is None:
        return gettext("Due")
    if hold.reason == HoldReason.NOT_DUE and hold.until is not None:
        return gettext("Next attempt")
    return gettext("Waiting: %(reason)s") % {"reason": hold.reason.label}


def _notices(event: Event, attempts: Iterable[DeliveryAttempt], *, url: DeliveryUrl) -> dict[str, list[TimelineStep]]:
    """Return the notices of each webhook about these attempts.

    A notice is an event of its own, queued for the same webhook at the end of the attempt. Only its data names the
    event.
    """
    failed = [each for each in attempts if each.result != DeliveryAttempt.Result.SUCCEEDED and _end(each) is not None]
    ranges = Q(pk__in=())
    for attempt in failed[:MAX_NOTICED]:
        end = ended_at(attempt)
        since, until = first_id_at("dlv", end), first_id_at("dlv", end + NOTICED_WITHIN)
        ranges |= Q(webhook=attempt.delivery.webhook_id, pk__gte=since, pk__lt=until)
    # The limit applies before the choice of the kind, so that other deliveries cannot prolong the search.
    rows = Delivery.objects.filter(ranges).order_by().values_list("event_id", "kind")[:MAX_CANDIDATES] if failed else ()
    candidates = [event_id for event_id, kind in rows if kind == Delivery.Kind.RETRY_NOTICE]
    if not candidates:
        return {}
    events = Event.objects.filter(pk__in=candidates, body__contains=f'"{event.pk}"')
    notices: dict[str, list[TimelineStep]] = {}
    for notice in Delivery.objects.filter(event__in=events).select_related("webhook").order_by()[:MAX_NOTICED]:
        what = gettext("Retry notice: %(state)s") % {"state": notice.get_state_display()}
        tone = TONES[State(notice.state)]
        step = TimelineStep(
            kind="notice", what=what, at=notice.created_at, tone=tone, url=url(notice.pk), sent_to=notice.webhook.url
        )
        notices.setdefault(notice.webhook_id, []).append(step)
    return notices


def _in_order(steps: Iterable[TimelineStep], began: datetime) -> list[TimelineStep]:
    """Return the steps in the order of their times, with the time since the emission; those without a time last."""
    known = [replace(step, after=after(step.at, began)) for step in steps]
    return sorted(known, key=lambda step: (step.at is None, step.at or began, step.kind != "emitted"))


def _description(recipients: Sequence[LaneRecipient]) -> str:
    done = sum(recipient.state == State.SUCCEEDED for recipient in recipients)
    text = ngettext(
        "Delivered to %(done)d of %(number)d webhook.", "Delivered to %(done)d of %(number)d webhooks.", len(recipients)
    )
    return text % {"number": len(recipients), "done": done}


def _cut_short(shown: int, known: int, *, is_whole: bool) -> str:
    if shown == known and is_whole:
        return ""
    text = (
        gettext("%(shown)d of %(known)d webhooks are shown, first those that did not get the event.")
        if is_whole
        else gettext("%(shown)d of more than %(known)d webhooks are shown, first those that did not get the event.")
    )
    return text % {"shown": shown, "known": known}
