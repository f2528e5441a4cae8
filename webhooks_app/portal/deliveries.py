"""The deliveries and events of an account: lists with filters, and pages with the reasons."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django import forms
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _

from ..event_types import INTERNAL_NAMES
from ..models import Delivery, DeliveryAttempt, Event, EventReference, Replay, Webhook
from ..models.disclosure import UNREACHABLE
from ..models.keyset import WHOLE, Page, Parts, created_within, read_page
from ..operations.rights import VIEW_DELIVERIES, VIEW_EVENTS
from ..owners import event_types_for
from ..pages.actions import DELIVERY
from ..pages.display import delivery_rows, result_in_words
from ..pages.explanation import policy_in_words, why_cancelled
from ..pages.filters import ANSWER, PERIODS, PeriodForm, limits_of, moment_field, with_answer
from ..pages.timeline import by_id, deliveries_read, timeline_of
from ..replays.missed import still_missed
from ..routing.report import decide
from .actions import buttons_of
from .base import PER_PAGE, AccountPage, cursor_of, links_of, redirect
from .webhook_actions import attempts_of

__all__ = ["DeliveryListPage", "DeliveryPage", "EventListPage", "EventPage"]

MAX_CHOICES = 50
"""The largest number of webhooks to choose from. The list of another webhook is linked on its page."""

MAX_SHOWN = 50
RECENT = 10

Kind = Delivery.Kind


class DeliveryFilterForm(PeriodForm):
    """The filters of the list. Those in ``BY_INDEX`` find their rows directly, the others among a limited number."""

    q = forms.CharField(
        label=_("Search"), required=False, max_length=100, help_text=_("ID (dlv_…, evt_…) or reference of an event")
    )
    state = forms.ChoiceField(label=_("State"), required=False)
    result = forms.ChoiceField(label=_("Last result"), required=False)
    answer = forms.CharField(
        label=_("Answer"),
        required=False,
        max_length=10,
        validators=[ANSWER],
        help_text=_("A status code such as 503, or 4xx or 5xx"),
    )
    webhook = forms.ChoiceField(label=_("Webhook"), required=False)
    event_type = forms.ChoiceField(label=_("Event type"), required=False)
    kind = forms.ChoiceField(label=_("Kind"), required=False)
    period = forms.ChoiceField(label=_("Time"), required=False)
    created_after = moment_field(_("From"))
    created_before = moment_field(_("To"))
    finished_after = moment_field(_("Finished from"))
    finished_before = moment_field(_("Finished to"))
    missed = forms.ChoiceField(
        label=_("Missed events"), required=False, choices=[("", _("All")), ("yes", _("Still missed"))]
    )
    replay = forms.CharField(required=False, max_length=40, widget=forms.HiddenInput)

    def __init__(self, *args: Any, owner: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        rows = Webhook.objects.owned_by(owner).order_by("-pk").values_list("pk", "url")
        chosen = rows.filter(pk=self.data.get("webhook"))
        results = [*DeliveryAttempt.Result.choices, (UNREACHABLE, result_in_words(UNREACHABLE))]
        kinds = [(Kind.EVENT, Kind.EVENT.label), (Kind.TEST, Kind.TEST.label)]
        others = [("", _("Events and tests")), *kinds, ("all", _("All, with notices and verifications"))]
        offered = [(each.name, each.name) for each in event_types_for(owner)]
        self._offer("state", Delivery.State.choices)
        self._offer("result", results)
        self._offer("webhook", [(pk, url[:60]) for pk, url in {**dict(rows[:MAX_CHOICES]), **dict(chosen)}.items()])
        self._offer("event_type", offered)
        self._offer("period", PERIODS.items())
        kind: Any = self.fields["kind"]
        kind.choices = others

    def _offer(self, name: str, choices: Any) -> None:
        field: Any = self.fields[name]
        field.choices = [("", _("All")), *choices]


class DeliveryListPage(AccountPage):
    """The deliveries of the account, with filters."""

    template_name = "webhooks_app/portal/delivery_list.html"
    section = "deliveries"
    title = _("Deliveries")
    right = VIEW_DELIVERIES

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        form = DeliveryFilterForm(self.request.GET, owner=self.owner, label_suffix="")
        page = self._page(form.cleaned_data) if form.is_valid() else Page(rows=[])
        rows = delivery_rows(page.rows, url=self.delivery_url)
        links = links_of(self.request, page)
        return super().get_context_data(form=form, rows=rows, is_cut_short=page.is_cut_short, **links, **kwargs)

    def _page(self, data: dict[str, Any]) -> Page:
        parts = self._parts(data)
        is_listed = bool(data["state"]) and Delivery.objects.is_listed(data["state"], parts)
        scope = _apply(Delivery.objects.for_owner(), _indexed(data, is_listed=is_listed))
        scanned = list(_scanned(data, is_listed=is_listed))
        found = _apply(scope, scanned)
        is_bounded = parts.are_too_many or parts.field == "event" or bool(scanned)
        shown = found.owned_by(self.owner).select_related("event", "webhook__lane", "queue_entry")
        return read_page(
            shown.defer("event__body"),
            scope=scope if is_bounded else None,
            parts=WHOLE if parts.are_too_many else parts,
            cursor=cursor_of(self.request),
            size=PER_PAGE,
            horizon=Delivery.objects.horizon_of(data["state"]),
        )

    def _parts(self, data: dict[str, Any]) -> Parts:
        """Return the index ranges of the list: the events, the webhook or the replay, or all of the account's webhooks.

        An event also has deliveries to webhooks of others.
        """
        text = data["q"].strip()
        if text.startswith("dlv_"):
            return WHOLE
        if text:
            is_event = text.startswith("evt_")
            return Parts("event", [text] if is_event else EventReference.newest_events(text, [self.owner.pk]))
        if data["replay"]:
            return Parts.of("replay", Replay.objects.owned_by(self.owner).filter(pk=data["replay"]))
        webhooks = Webhook.objects.owned_by(self.owner)
        return Parts.of("webhook", webhooks.filter(pk=data["webhook"]) if data["webhook"] else webhooks)


Narrowed = Iterable[Any]
"""Functions from deliveries to the matching ones."""


def _apply(rows: Any, filters: Narrowed) -> Any:
    for narrow in filters:
        rows = narrow(rows)
    return rows


def _indexed(data: dict[str, Any], *, is_listed: bool) -> Narrowed:
    """Yield the filters that find their rows by an index, as the state does if ``is_listed``."""
    text, state = data["q"].strip(), data["state"]
    if text.startswith("dlv_"):
        yield lambda rows: rows.filter(pk=text)
    if is_listed:
        yield lambda rows: rows.in_state(state)
    if data["period"]:
        yield _created(*limits_of(data["period"]))
    yield _created(data["created_after"], data["created_before"])


def _with(name: str, value: str) -> Any:
    return lambda rows: rows.filter(**{name: value})


def _created(since: datetime | None, until: datetime | None) -> Any:
    return lambda rows: created_within(rows, since, until)


def _of_result(data: dict[str, Any]) -> Narrowed:
    if data["result"]:
        yield lambda rows: rows.with_result(data["result"])
    if data["answer"]:
        yield lambda rows: with_answer(rows, data["answer"])
    if data["missed"]:
        yield still_missed


def _scanned(data: dict[str, Any], *, is_listed: bool) -> Narrowed:
    """Yield the filters without an index."""
    if data["q"].strip():  # so that the list does not consist of the ranges of a webhook or a replay
        for name in ("webhook", "replay"):
            if data[name]:
                yield _with(name, data[name])
    if data["state"] and not is_listed:
        yield lambda rows: rows.filter(state=data["state"])
    yield from _of_result(data)
    if data["event_type"]:
        yield lambda rows: rows.filter(event__type=data["event_type"])
    if data["finished_after"] or data["finished_before"]:
        limits = data["finished_after"], data["finished_before"]
        yield lambda rows: rows.finished_within(*limits, with_cancelled=True)
    if data["kind"] != "all":
        kinds = [data["kind"]] if data["kind"] else [Kind.EVENT, Kind.TEST]
        yield lambda rows: rows.filter(kind__in=kinds)


class DeliveryPage(AccountPage):
    """A delivery with the request and the response of each attempt."""

    template_name = "webhooks_app/portal/delivery.html"
    section = "deliveries"
    is_live = True
    right = VIEW_DELIVERIES

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context = attempts_of(self, self.kwargs["pk"])
        delivery: Delivery = context["delivery"]
        again = (
            Delivery.objects.owned_by(self.owner)
            .for_owner()
            .filter(redelivery_of=delivery.redelivery_of_id or delivery.pk)
        )
        again = again.exclude(pk=delivery.pk).select_related("event", "webhook__lane", "queue_entry")
        again = again.defer("event__body").order_by("-pk")[:RECENT]
        return super().get_context_data(
            title=delivery.event_type,
            **context,
            policy=policy_in_words(delivery),
            why_cancelled=why_cancelled(delivery) if delivery.state == Delivery.State.CANCELLED else "",
            redeliveries=delivery_rows(again, url=self.delivery_url),
            actions=list(buttons_of(self, DELIVERY, delivery, lambda name: name)),
            **kwargs,
        )

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Retry the delivery now, or send its event once more and show the new delivery."""
        offer = DELIVERY.get(request.POST.get("action", "redeliver"))
        if offer is None:
            raise Http404
        rows = Delivery.objects.select_related("event", "webhook__lane", "queue_entry")
        delivery = self.find(rows, self.kwargs["pk"])
        return redirect(self.delivery_url((self.perform(offer, delivery) or delivery).pk))


class EventFilterForm(forms.Form):
    q = forms.CharField(
        label=_("Search"), required=False, max_length=100, help_text=_("ID (evt_…) or reference of an event")
    )
    type = forms.ChoiceField(label=_("Event type"), required=False)

    def __init__(self, *args: Any, owner: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        offered = [(each.name, each.name) for each in event_types_for(owner)]
        event_type: Any = self.fields["type"]
        event_type.choices = [("", _("All")), *offered]


class EventListPage(AccountPage):
    """The events of the account."""

    template_name = "webhooks_app/portal/event_list.html"
    section = "events"
    title = _("Events")
    right = VIEW_EVENTS

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        form = EventFilterForm(self.request.GET, owner=self.owner, label_suffix="")
        page = self._page(form.cleaned_data) if form.is_valid() else Page(rows=[])
        links = links_of(self.request, page)
        return super().get_context_data(form=form, events=page.rows, is_cut_short=page.is_cut_short, **links, **kwargs)

    def _page(self, data: dict[str, Any]) -> Page:
        text = data["q"].strip()
        rows: Any = Event.objects.filter(owner=self.owner).defer("body")
        if text:
            rows = rows.filter(pk=text) if text.startswith("evt_") else rows.filter(pk__in=EventReference.events(text))
        chosen = {"type": data["type"]} if data["type"] else {}
        found: QuerySet[Event] = rows.owned_by(self.owner).exclude(type__in=INTERNAL_NAMES).filter(**chosen)
        return read_page(found, scope=rows, cursor=cursor_of(self.request), size=PER_PAGE)


class EventPage(AccountPage):
    """An event with its timeline, and the reason why each webhook received it or not."""

    template_name = "webhooks_app/portal/event.html"
    section = "events"
    right = VIEW_EVENTS

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        event: Event = self.find(Event.objects.all(), self.kwargs["pk"])
        own = Delivery.objects.filter(event=event).owned_by(self.owner).for_owner()
        read = deliveries_read(own)
        newest = by_id(own, [each.pk for each in read[-MAX_SHOWN:]]).select_related("event").defer("event__body")
        return super().get_context_data(
            title=event.type,
            event=event,
            data=json.dumps(event.data, indent=2, ensure_ascii=False) if event.has_body else "",
            references=list(event.references.values_list("value", flat=True)),
            decisions=decide(event),
            timeline=timeline_of(event, own, read, url=self.delivery_url),
            rows=delivery_rows(newest, url=self.delivery_url),
            **kwargs,
        )
