"""The lists of deliveries, events, webhooks and the rest, described once for the console, customers' pages and the API.

A description has the filters with their names and meanings, the search, and the index ranges that make up the list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from django.db.models import Model, Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from ..database.dialects import dialect_of
from ..event_types import INTERNAL_EVENT_TYPES, INTERNAL_NAMES, EventTypeRegistry
from ..models import (
    ApiKey,
    AuditEntry,
    Delivery,
    DeliveryAttempt,
    Event,
    EventReference,
    Problem,
    QueueEntry,
    Replay,
    Webhook,
)
from ..models.audit import Action, Via
from ..models.event import MAX_REFERENCE_LENGTH
from ..models.keyset import WHOLE, Parts, created_within
from ..models.problem import UNRESOLVED
from ..models.standing import Standing, conditions
from ..models.status import REQUESTED
from ..replays.missed import still_missed
from ..routing import subscribed_to
from ..transport.endpoint import MAX_URL_LENGTH
from .display import RESULTS
from .filters import ANSWER, PERIOD_CHOICES, TIMEOUT, codes_of, limits_of, with_answer
from .listing import Asked, Chip, Default, ListFilter, Narrow, RowList, always, never, without_parts

PLATFORM = "-"
"""The owner of the platform's webhooks in a query. It is no name that an account is likely to have."""

TRUE_OR_FALSE = MappingProxyType({"true": _("yes"), "false": _("no")})

WITH_ATTEMPTS, PENDING_WITH_ATTEMPTS = 600, 250
"""Maximum number of deliveries that one page examines for an answer: it reads all attempts of each, often four. Between
those of the queue, there are others in the log of a webhook."""

State = Delivery.State


def _equals(path: str) -> Narrow:
    return lambda rows, value, asked: rows.filter(**{path: value})


def _owned(text: str, asked: Asked, path: str = "") -> Q:
    if text == PLATFORM:
        return Q(**{f"{path}owner": None})
    return Q(**{f"{path}owner__in": asked.accounts(text)})


def _search(hint: Any) -> ListFilter:
    def narrow(rows: Any, value: str, asked: Asked) -> Any:
        for term in asked.terms:
            rows = rows.filter(asked.listed.matches(term, asked))
        return rows

    return ListFilter(
        name="q",
        label=_("Search"),
        hint=hint,
        narrow=narrow,
        max_length=MAX_URL_LENGTH,
        # The parts are those of the search, except those of a replay, of which the search may match none.
        is_by_index=without_parts,
        parts=("event", "owner", "webhook"),
    )


def _owner(path: str = "") -> ListFilter:
    """Return the filter by account, for readers of several; of webhooks whose rows are adjacent if there is a path."""
    return ListFilter(
        name="owner",
        label=_("account"),
        hint=_("Name of the account"),
        narrow=lambda rows, value, asked: rows.filter(_owned(value, asked, path)),
        suggested={PLATFORM: _("the platform")},
        max_length=254,
        is_by_index=never if path else always,
        parts=("webhook",) if path else (),
    )


def _period(name: str, meaning: str = "") -> tuple[ListFilter, ...]:
    """Return the filters by the time of creation, which identifiers contain, so that their index has the rows."""
    title = _("time")

    def within(rows: Any, value: Any, asked: Asked) -> Any:
        return created_within(rows, *limits_of(value))

    def since(rows: Any, value: Any, asked: Asked) -> Any:
        return created_within(rows, since=value)

    def until(rows: Any, value: Any, asked: Asked) -> Any:
        return created_within(rows, until=value)

    shared: dict[str, Any] = {"title": title, "is_by_index": always}
    ends = _ends(name, name.capitalize(), since, until, labels=(_("From"), _("To")), meaning=meaning, **shared)
    return (ListFilter(name="period", label=title, values=PERIOD_CHOICES, narrow=within, **shared), *ends)


def _ends(
    name: str, verb: str, since: Narrow, until: Narrow, *, labels: tuple[Any, Any], meaning: str = "", **shared: Any
) -> tuple[ListFilter, ListFilter]:
    """Return the filters by the beginning and the end of a period."""
    after, before = (f"{verb} {when}{meaning}." for when in ("at this time or later", "before this time"))
    return (
        ListFilter(name=f"{name}_after", label=labels[0], meaning=after, narrow=since, is_moment=True, **shared),
        ListFilter(name=f"{name}_before", label=labels[1], meaning=before, narrow=until, is_moment=True, **shared),
    )


CREATED = _period("created")


# Deliveries


def _is_state_listed(state: Any, asked: Asked) -> bool:
    return Delivery.objects.is_listed(state, asked.parts)


class DeliveryList(RowList):
    """A list of the rows of webhooks: of an event, of a replay, or of webhooks, each a range of an index.

    An event's range comes first: an event has few deliveries, and a webhook may have millions.
    """

    def matches_text(self, term: str, asked: Asked) -> Q:
        if events := asked.events(term):
            return Q(event__in=events)
        return _of_webhook(term, asked)

    def parts(self, asked: Asked) -> Parts:
        values, terms = asked.values, asked.terms
        if any(self.field_of(term) in ("pk", "replay") for term in terms):
            return WHOLE
        if "event_id" in values:
            return Parts("event", [values["event_id"]])
        if "reference" in values:
            return Parts("event", asked.events(values["reference"]))
        for term in terms:
            if events := self._events(term, asked):
                return Parts("event", events)
        if "replay_id" in values:
            replays = Replay.objects.filter(pk=values["replay_id"])
            if asked.owner_ids is not None:
                replays = replays.filter(webhook__owner__in=asked.owner_ids)
            return Parts.of("replay", replays)
        return _of_webhooks(asked)

    def _events(self, term: str, asked: Asked) -> list[str]:
        if field := self.field_of(term):
            return [term] if field == "event" else []
        return asked.events(term)

    def is_covered_by(self, parts: Parts) -> bool:
        return parts.field != "event"  # which has deliveries to other accounts, and other terms of the search

    def horizon(self, asked: Asked) -> int:
        state = asked.values.get("state", "")
        if "answer" in asked.values:
            return PENDING_WITH_ATTEMPTS if state == State.PENDING else WITH_ATTEMPTS
        return Delivery.objects.horizon_of(state)

    def source(self, asked: Asked, by_index: Sequence[ListFilter]) -> Any:
        """Return the queue for a list of pending deliveries.

        PostgreSQL would join the queue with all deliveries in their order, although few of the older ones are pending.
        """
        times = [each for each in by_index if each in CREATED]
        others = [each for each in by_index if each not in CREATED]
        entries: Any = QueueEntry.objects.all()
        is_pending = asked.values.get("state") == State.PENDING and [each.name for each in others] == ["state"]
        if not is_pending or not dialect_of(entries.db).has_lateral_joins:
            return None
        for each in times:
            entries = each.narrow(entries, asked.values[each.name], asked)  # type: ignore[misc] # times have one
        return entries


def _of_webhook(term: str, asked: Asked) -> Q:
    """Return the condition of the rows of webhooks that a term finds."""
    by_text = Q(webhook__url__icontains=term) | Q(webhook__description__icontains=term)
    return by_text | Q(webhook__owner__in=asked.accounts(term))


def _of_webhooks(asked: Asked) -> Parts:
    """Return one part for each webhook if the list is limited to certain webhooks."""
    if asked.owner_ids is None and not asked.terms and not asked.values.keys() & {"webhook_id", "owner"}:
        return WHOLE
    if "webhook_id" in asked.found:
        return Parts("webhook", [asked.values["webhook_id"]])
    return Parts.of("webhook", _asked_webhooks(asked))


def _asked_webhooks(asked: Asked) -> QuerySet[Webhook]:
    """Return the webhooks whose rows are asked for."""
    rows = Webhook.objects.all()
    if asked.owner_ids is not None:
        rows = rows.filter(owner__in=asked.owner_ids)
    for term in asked.terms:
        rows = rows.filter(WEBHOOKS.matches(term, asked))
    if "webhook_id" in asked.values:
        rows = rows.filter(pk=asked.values["webhook_id"])
    return rows.filter(_owned(asked.values["owner"], asked)) if "owner" in asked.values else rows


OF_WEBHOOK = ListFilter(
    name="webhook_id",
    label=_("webhook"),
    hint=_("ID (wh_…)"),
    meaning="Only deliveries to this webhook.",
    narrow=_equals("webhook"),
    parts=("webhook",),
)

KIND = ListFilter(
    name="kind",
    label=_("kind"),
    meaning="Only deliveries of this kind.",
    narrow=_equals("kind"),
    values=dict(Delivery.Kind.choices),
    default=Default(
        label=_("Events and tests"),
        note=_("Notices and verifications are hidden."),
        narrow=lambda rows, value, asked: rows.filter(kind__in=REQUESTED),
        lifted_by=("q", "event_type", "event_id", "reference"),
    ),
)

ANSWERED = ListFilter(
    name="answer",
    label=_("answer"),
    hint=_("A status code such as 503, or 4xx or 5xx"),
    meaning="Only deliveries of which any attempt was answered with this status, such as `503`, or with one of a "
    "class, such as `5xx`, or not in time (`timeout`); also those that a retry delivered.",
    narrow=lambda rows, value, asked: with_answer(rows, value),
    suggested={"4xx": "4xx", "5xx": "5xx", TIMEOUT: _("timeout")},
    samples=("503", "4xx", "5xx", TIMEOUT),
    max_length=10,
    validators=(ANSWER,),
)

DELIVERIES = DeliveryList(
    model=Delivery,
    owner_path="webhook__owner",
    ids={"dlv": "pk", "evt": "event", "wh": "webhook", "rpl": "replay"},
    bar=("q", "webhook_id", "event_type", "period"),
    chips=(
        Chip(label=_("All"), values={}),
        Chip(label=_("Failed"), values={"state": State.GIVEN_UP.value}),
        Chip(label=_("Retrying"), values={"state": State.PENDING.value, "attempted": "true"}),
        Chip(label=_("Delivered"), values={"state": State.SUCCEEDED.value}),
        Chip(
            label=_("Still missed"),
            values={"missed": "true"},
            counted_by=[{"state": state.value} for state in Delivery.LISTED_STATES],
        ),
    ),
    filters=(
        _search(_("ID (dlv_…, evt_…, wh_…, rpl_…), reference of an event, part of a URL")),
        ListFilter(
            name="state",
            label=_("state"),
            meaning="Only deliveries in this state; `completed` for those that succeeded or were given up.",
            narrow=lambda rows, value, asked: rows.in_state(value),
            values={**dict(State.choices), Delivery.COMPLETED: _("succeeded or given up")},
            is_by_index=_is_state_listed,
        ),
        ListFilter(
            name="attempted",
            label=_("attempted"),
            meaning="`true` for deliveries of which an attempt was made, `false` for the others; with `state=pending` "
            "those that are retried.",
            narrow=lambda rows, value, asked: rows.filter(**{f"attempt_count{'__gt' * (value == 'true')}": 0}),
            values=TRUE_OR_FALSE,
        ),
        ListFilter(
            name="missed",
            label=_("missed events"),
            meaning="`true` for given-up and cancelled deliveries whose event is still missed: it was neither "
            "delivered otherwise, nor will be attempted.",
            narrow=lambda rows, value, asked: still_missed(rows),
            values={"true": _("Still missed")},
        ),
        ListFilter(
            name="result",
            label=_("result"),
            meaning="Only deliveries whose last attempt had this result.",
            narrow=lambda rows, value, asked: rows.with_result(value),
            values=RESULTS,
        ),
        ANSWERED,
        *CREATED,
        *_ends(
            *("finished", "Succeeded, given up or cancelled"),
            lambda rows, value, asked: rows.finished_within(value, None),
            lambda rows, value, asked: rows.finished_within(None, value),
            labels=(_("Finished from"), _("Finished to")),
            title=_("completion"),
        ),
        OF_WEBHOOK,
        _owner("webhook__"),
        ListFilter(
            name="reference",
            label=_("reference"),
            meaning="Only deliveries of events with this reference.",
            narrow=lambda rows, value, asked: rows.filter(event__in=asked.events(value)),
            samples=("order_17",),
            max_length=MAX_REFERENCE_LENGTH,
            is_by_index=always,
            parts=("event",),
        ),
        KIND,
        ListFilter(
            name="event_type",
            label=_("event type"),
            meaning="Only deliveries of events of this type.",
            narrow=lambda rows, value, asked: rows.of_type(value),
        ),
        ListFilter(
            name="event_id",
            label=_("event"),
            meaning="Only deliveries of this event.",
            narrow=_equals("event"),
            is_linked=True,
            parts=("event",),
        ),
        ListFilter(
            name="replay_id",
            label=_("replay"),
            meaning="Only deliveries queued by this replay.",
            narrow=_equals("replay"),
            is_linked=True,
            parts=("replay",),
        ),
    ),
)


# Events


class EventList(RowList):
    def matches_text(self, term: str, asked: Asked) -> Q:
        # Either condition is a range scan of an index; both combined would not be.
        if asked.events(term):
            return Q(pk__in=EventReference.events(term))
        return super().matches_text(term, asked)

    def parts(self, asked: Asked) -> Parts:
        """Return one part for each owner, but not for the search of an ID or a reference, which has its own index."""
        has_index = any(self.is_id(term) or asked.events(term) for term in asked.terms)
        return WHOLE if has_index else super().parts(asked)


EVENTS = EventList(
    model=Event,
    ids={"evt": "pk"},
    bar=("q", "type", "period"),
    filters=(
        _search(_("ID (evt_…), reference of an event")),
        *_period("recorded", "; an event may have occurred earlier"),
        # The identifier contains the time of the emission. No index has that of the occurrence.
        *_ends(
            *("created", "Occurred", _equals("created_at__gte"), _equals("created_at__lt")),
            labels=(_("Occurred from"), _("Occurred to")),
            meaning="; `recorded_after` and `recorded_before` find the latest events faster",
            title=_("occurrence"),
        ),
        _owner(),
        ListFilter(
            name="reference",
            label=_("reference"),
            meaning="Only events with this reference.",
            narrow=lambda rows, value, asked: rows.filter(pk__in=EventReference.events(value)),
            samples=("order_17",),
            max_length=MAX_REFERENCE_LENGTH,
            is_by_index=always,
        ),
        ListFilter(
            name="test",
            label=_("test"),
            meaning="`true` for test events only, `false` for real events only.",
            narrow=lambda rows, value, asked: rows.filter(is_test=value == "true"),
            values=TRUE_OR_FALSE,
        ),
        ListFilter(
            name="type",
            label=_("event type"),
            meaning="Only events of this type.",
            default=Default(
                label=_("All but retry notices"),
                note=_("Retry notices are hidden."),
                narrow=lambda rows, value, asked: rows.exclude(type__in=INTERNAL_NAMES),
                lifted_by=("q", "reference"),
            ),
        ),
    ),
)


# Webhooks


class WebhookList(RowList):
    def matches_text(self, term: str, asked: Asked) -> Q:
        return Q(url__icontains=term) | Q(description__icontains=term) | super().matches_text(term, asked)


WEBHOOKS = WebhookList(
    model=Webhook,
    ids={"wh": "pk"},
    bar=("q", "status", "health", "event_type"),
    filters=(
        _search(_("ID (wh_…), part of a URL or of a description")),
        ListFilter(
            name="status",
            label=_("status"),
            meaning="Only webhooks with this status.",
            values=dict(Webhook.Status.choices),
        ),
        ListFilter(
            name="health",
            label=_("health"),
            meaning="Only webhooks whose `health` has this state.",
            narrow=lambda rows, value, asked: rows.filter(conditions(timezone.now())[Standing(value)]),
            values=dict(Standing.choices),
        ),
        ListFilter(
            name="event_type",
            label=_("event type"),
            meaning="Only webhooks subscribed to this event type.",
            narrow=lambda rows, value, asked: rows.filter(subscribed_to(value)),
        ),
        *CREATED,
        _owner(),
    ),
)


# Replays

REPLAYS = RowList(
    model=Replay,
    owner_path="webhook__owner",
    ids={"rpl": "pk", "wh": "webhook"},
    filters=(
        _search(_("ID (rpl_…, wh_…)")),
        ListFilter(
            name="state",
            label=_("state"),
            meaning="Only replays in this state.",
            values=dict(Replay.State.choices),
        ),
        *CREATED,
        replace(OF_WEBHOOK, meaning="Only replays to this webhook.", is_by_index=always, parts=()),
        _owner("webhook__"),
    ),
)


# Problems


class ProblemList(RowList):
    def matches_text(self, term: str, asked: Asked) -> Q:
        return _of_webhook(term, asked)

    def parts(self, asked: Asked) -> Parts:
        return WHOLE if any(self.field_of(term) == "pk" for term in asked.terms) else _of_webhooks(asked)


def _is_unresolved_listed(value: Any, asked: Asked) -> bool:
    """Return True for the whole list. The index of a webhook's problems has the resolved ones too."""
    parts = asked.parts
    return not value and (not parts.field or parts.are_too_many) and Problem.objects.lists_unresolved()


def of_code(word: str) -> Q:
    """Return the condition for the problems with a code such as 503, a class such as 5xx, or ``timeout``."""
    return Q(result=TIMEOUT) if word == TIMEOUT else Q(code__range=codes_of(word))


KNOWN_PROBLEMS = ProblemList(
    model=Problem,
    owner_path="webhook__owner",
    ids={"prb": "pk", "wh": "webhook"},
    filters=(
        _search(_("ID (prb_…, wh_…), part of a URL")),
        ListFilter(
            name="state",
            label=_("state"),
            values=dict(Problem.State.choices),
            default=Default(
                label=_("Open and acknowledged"),
                narrow=lambda rows, value, asked: rows.filter(state__in=UNRESOLVED),
            ),
            is_by_index=_is_unresolved_listed,
        ),
        replace(ANSWERED, meaning="", narrow=lambda rows, value, asked: rows.filter(of_code(value))),
        ListFilter(
            name="result",
            label=_("result"),
            values=dict(DeliveryAttempt.Result.choices),
        ),
        ListFilter(
            name="seen",
            label=_("time of the last failure"),
            narrow=lambda rows, value, asked: rows.filter(last_seen_at__gte=limits_of(value)[0]),
            values={name: PERIOD_CHOICES[name] for name in ("hour", "day", "week")},
        ),
        replace(OF_WEBHOOK, meaning=""),
        _owner("webhook__"),
    ),
)


# API keys, and the audit log


class KeyList(RowList):
    def matches_text(self, term: str, asked: Asked) -> Q:
        return Q(prefix=term.split("_")[1]) if term.startswith("whk_") else super().matches_text(term, asked)


KEYS = KeyList(
    model=ApiKey,
    ids={"key": "pk"},
    filters=(
        _search(_("ID (key_…), start of a key (whk_…)")),
        *CREATED,
        _owner(),
        ListFilter(
            name="revoked",
            label=_("revoked"),
            narrow=lambda rows, value, asked: rows.filter(revoked_at__isnull=value == "false"),
            values=TRUE_OR_FALSE,
        ),
    ),
)


class AuditList(RowList):
    def parts(self, asked: Asked) -> Parts:
        return WHOLE if "subject" in asked.values else super().parts(asked)


AUDIT = AuditList(
    model=AuditEntry,
    ids={"aud": "pk", **dict.fromkeys(("wh", "dlv", "key", "rpl", "prb"), "subject")},
    filters=(
        _search(_("ID (aud_…, wh_…, dlv_…, key_…, rpl_…)")),
        ListFilter(
            name="action",
            label=_("action"),
            meaning="Only entries with this action.",
            values=dict(Action.choices),
        ),
        ListFilter(
            name="via",
            label=_("channel"),
            meaning="Only entries of changes made in this way.",
            values=dict(Via.choices),
        ),
        ListFilter(
            name="subject",
            label=_("subject"),
            is_linked=True,
            is_by_index=always,
        ),
        *CREATED,
        _owner(),
    ),
)

LISTS: Sequence[RowList] = (DELIVERIES, EVENTS, WEBHOOKS, REPLAYS, KNOWN_PROBLEMS, KEYS, AUDIT)

MODELS: Mapping[str, type[Model]] = {
    prefix: listed.model for listed in LISTS for prefix, field in listed.ids.items() if field == "pk"
}
"""The models by the prefix of their identifiers."""


def type_choices(listed: RowList, visible: EventTypeRegistry) -> dict[str, list[tuple[str, str]]]:
    """Return the choices of the filters by event type, for a reader of these types.

    Notices and verifications have deliveries, but nobody subscribes to them.
    """
    more = () if listed is WEBHOOKS else INTERNAL_EVENT_TYPES
    choices = [(each.name, each.name) for each in (*visible, *more)]
    return {"event_type": choices, "type": choices}
