"""Filters of the change lists. None of them reads the table for its choices.

``is_by_index`` marks a filter whose rows are adjacent in an index; for a state it depends on the parts of the list.
``part_field`` is the field of the parts that already apply a filter. Any other filter examines a bounded number of
rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, cast

from django import forms
from django.contrib import admin
from django.contrib.admin.views.main import ERROR_FLAG, PAGE_VAR, SEARCH_VAR
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..event_types import INTERNAL_EVENT_TYPES
from ..models import Delivery, DeliveryAttempt, EventReference
from ..models.delivery import DeliveryQuerySet
from ..models.disclosure import UNREACHABLE
from ..models.event import MAX_REFERENCE_LENGTH
from ..models.keyset import Parts, created_within
from ..models.status import REQUESTED
from ..owners import owners
from ..pages.display import result_in_words
from ..pages.filters import ANSWER, PERIODS, SPANS, TIMEOUT, PeriodForm, limits_of, moment_field, with_answer
from ..replays.missed import still_missed
from ..transport.endpoint import MAX_URL_LENGTH
from .change_list import CURSOR_VAR
from .owned import MAX_FOUND, actor_of, found_owners, knows_owners, manages_all, own_ids, visible_event_types


class StateFilter(admin.ChoicesFieldListFilter):
    """Filter by the state of deliveries; the queue or an index covers some states."""

    @property
    def horizon(self) -> int:
        return Delivery.objects.horizon_of(self._state)

    @property
    def is_pending(self) -> bool:
        return self._state == Delivery.State.PENDING

    @property
    def _state(self) -> str:
        values: Any = self.lookup_val or ()
        return values[0] if len(values) == 1 else ""

    def is_by_index(self, parts: Parts) -> bool:
        return bool(self._state) and Delivery.objects.is_listed(self._state, parts)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        rows: Any = queryset
        found: Any = rows.in_state(self._state) if self._state else super().queryset(request, queryset)
        return cast("QuerySet[Any]", found)


class KindFilter(admin.SimpleListFilter):
    """Filter by kind. Notices and verifications are hidden until they are chosen, or something is searched for."""

    title = _("kind")
    parameter_name = "kind__exact"
    ALL = "all"

    def __init__(self, request: HttpRequest, params: dict[str, Any], model: Any, model_admin: Any) -> None:
        super().__init__(request, params, model, model_admin)
        self.hides = not self.value() and not any(request.GET.get(name) for name in (SEARCH_VAR, "event_type"))
        if self.hides:  # a filter without an index, which examines a bounded number of rows
            self.used_parameters[self.parameter_name] = ""

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [(self.ALL, _("All")), *Delivery.Kind.choices]

    def choices(self, changelist: Any) -> Iterator[Any]:
        first, *others = super().choices(changelist)
        yield {**first, "selected": self.hides, "display": _("Events and tests")}
        yield from others

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.hides:
            return queryset.filter(kind__in=REQUESTED)
        return queryset if self.value() in (None, "", self.ALL) else queryset.filter(kind=self.value())


class EventTypeFilter(admin.SimpleListFilter):
    """Filter by event type, with the visible types of the catalogue as choices."""

    title = _("event type")
    parameter_name = "event_type"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        event_types = (*visible_event_types(request), *INTERNAL_EVENT_TYPES)
        return [(event_type.name, event_type.name) for event_type in event_types]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(type=self.value()) if self.value() else queryset


class EventTypeOfDeliveryFilter(EventTypeFilter):
    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        name = self.value()
        return cast("DeliveryQuerySet", queryset).of_type(name) if name else queryset


class ResultFilter(admin.SimpleListFilter):
    """Filter by the result of the last attempt."""

    title = _("result")
    parameter_name = "result"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        hidden = [] if manages_all(request) else [(UNREACHABLE, result_in_words(UNREACHABLE))]
        return [*DeliveryAttempt.Result.choices, *hidden]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        deliveries = cast("DeliveryQuerySet", queryset)
        value = self.value()
        return deliveries.with_result(value) if value else queryset


class MissedFilter(admin.SimpleListFilter):
    """Filter failed deliveries by whether their event is still missed."""

    title = _("missed events")
    parameter_name = "missed"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("yes", _("Still missed"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return still_missed(queryset) if self.value() else queryset


class TypedFilter(admin.ListFilter):
    """Filter by the input of a form. Other filters stay active; invalid input matches nothing."""

    template = "admin/webhooks_app/typed_filter.html"
    form_class: type[forms.Form]
    parameter_names: ClassVar[tuple[str, ...]]
    """Fields of the form and the query parameters that they replace."""
    parameter_name: str
    """The first of ``parameter_names``. Admin themes such as Unfold expect this attribute, as in Django's filters."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "parameter_names" in vars(cls):
            cls.parameter_name = cls.parameter_names[0]

    def __init__(self, request: HttpRequest, params: dict[str, Any], model: Any, model_admin: Any) -> None:
        super().__init__(request, params, model, model_admin)
        given = {name: params.pop(name)[-1] for name in self.form_class.base_fields if name in params}
        form = self.form_class(given or None, auto_id="filter-%s")
        is_valid = form.is_valid()
        self.is_nonsense = form.is_bound and not is_valid
        self.typed = {name: value for name, value in form.cleaned_data.items() if value} if is_valid else {}
        self.form = form if self.is_nonsense else self.form_class(initial=self.typed, auto_id="filter-%s")
        self.used_parameters |= given if self.is_nonsense else self.typed

    @property
    def kept(self) -> list[tuple[str, str]]:
        """Hidden fields of the form: the search and the other filters."""
        dropped = {*self.parameter_names, CURSOR_VAR, PAGE_VAR, ERROR_FLAG}
        given = self.request.GET.lists()
        return [(name, value) for name, values in given if name not in dropped for value in values if value]

    def has_output(self) -> bool:
        return True

    def expected_parameters(self) -> list[str | None]:
        return list(self.parameter_names)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.none() if self.is_nonsense else self.narrowed(queryset)

    def narrowed(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        raise NotImplementedError

    def _all(self, changelist: Any) -> dict[str, Any]:
        """Return the choice that removes the filter."""
        without = changelist.get_query_string(dict.fromkeys(self.parameter_names))
        return {"selected": not self.used_parameters, "query_string": without, "display": _("All")}


class TimesForm(PeriodForm):
    created_after = moment_field(_("From"))
    created_before = moment_field(_("To"))


class CreatedFilter(TypedFilter, admin.SimpleListFilter):
    """Filter by creation time, which identifiers contain."""

    title = _("time")
    parameter_name: str
    parameter_names = ("created", "created_after", "created_before")
    form_class = TimesForm
    is_by_index = True

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [(name, PERIODS[name]) for name in SPANS]

    def choices(self, changelist: Any) -> Iterator[Any]:
        yield self._all(changelist)
        given = {name: value for name, value in self.request.GET.items() if name in self.parameter_names}
        for name, label in PERIODS.items():
            meant = {self.parameter_name: name} if name in SPANS else _typed(name)
            query = changelist.get_query_string({**dict.fromkeys(self.parameter_names), **meant})
            yield {"selected": given == meant, "query_string": query, "display": label}

    def narrowed(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        if (name := self.value()) in SPANS:
            rows = created_within(rows, *limits_of(name))
        return created_within(rows, self.typed.get("created_after"), self.typed.get("created_before"))


class FinishedForm(PeriodForm):
    finished_after = moment_field(_("From"))
    finished_before = moment_field(_("To"))


class FinishedFilter(TypedFilter):
    """Filter by the time of the success, or of giving up, which the charts count."""

    title = _("completion")
    parameter_names = ("finished_after", "finished_before")
    form_class = FinishedForm

    def choices(self, changelist: Any) -> Iterator[Any]:
        yield self._all(changelist)

    def narrowed(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        if not self.typed:
            return rows
        deliveries = cast("DeliveryQuerySet", rows)
        return deliveries.finished_within(self.typed.get("finished_after"), self.typed.get("finished_before"))


def _typed(day: str) -> dict[str, str]:
    """Return the beginning and the end of a day for the form, where users edit them."""
    return {
        name: f"{moment:%Y-%m-%dT%H:%M:%S}"
        for name, moment in zip(("created_after", "created_before"), limits_of(day), strict=True)
    }


class WordFilter(TypedFilter):
    """Filter by one typed word, shown as the selected choice."""

    path: str = ""
    """Prefix of the lookup, from a row to the filtered model."""

    @property
    def word(self) -> str:
        return str(self.used_parameters.get(self.parameter_name, ""))

    def choices(self, changelist: Any) -> Iterator[Any]:
        yield self._all(changelist)
        if self.word:
            yield {"selected": True, "query_string": changelist.get_query_string(), "display": self.shown_word}

    @property
    def shown_word(self) -> str:
        return self.word

    def narrowed(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        return rows.filter(self.meant(self.path)) if self.word else rows

    def meant(self, path: str) -> Q:
        """Return the condition for matching rows, with the lookup prefix."""
        raise NotImplementedError


PLATFORM = "-"
"""The owner of the platform's webhooks in a query. It is no name that an account is likely to have."""


class OwnerForm(forms.Form):
    owner = forms.CharField(label=_("Name of the account"), required=False, max_length=254)


class OwnerFilter(WordFilter):
    """Filter by owner, for users who may see the rows of several owners."""

    title = _("account")
    parameter_names = ("owner",)
    form_class = OwnerForm

    @property
    def is_by_index(self) -> bool:
        return True

    def has_output(self) -> bool:
        return knows_owners(self.request)

    def choices(self, changelist: Any) -> Iterator[Any]:
        if manages_all(self.request):
            yield from super().choices(changelist)
            return
        yield self._all(changelist)
        for owner in actor_of(self.request).owners[:MAX_FOUND]:
            query = changelist.get_query_string({self.parameter_name: str(owner.pk)})
            is_it = self.word in (str(owner.pk), owners().label(owner))
            yield {"selected": is_it, "query_string": query, "display": owners().label(owner)}

    @property
    def shown_word(self) -> str:
        return gettext("the platform") if self.word == PLATFORM else self.word

    def meant(self, path: str) -> Q:
        if self.word == PLATFORM:
            return Q(**{f"{path}owner": None})
        return Q(**{f"{path}owner__in": self._accounts})

    @cached_property
    def _accounts(self) -> list[Any]:
        return found_owners(self.word)


class ReferenceForm(forms.Form):
    reference = forms.CharField(label=_("Reference"), required=False, max_length=MAX_REFERENCE_LENGTH)


class ReferenceFilter(WordFilter):
    """Filter events by reference."""

    title = _("reference")
    parameter_name = "reference"
    parameter_names = (parameter_name,)
    form_class = ReferenceForm
    is_by_index = True

    def meant(self, path: str) -> Q:
        return Q(**{f"{path}pk__in": EventReference.events(self.word)})


class ReferenceOfEventFilter(ReferenceFilter):
    """Filter deliveries by the reference of their event. The rows of each event are adjacent in an index."""

    part_field = "event"

    def meant(self, path: str) -> Q:
        return Q(event__in=self.events)

    @cached_property
    def events(self) -> list[str]:
        return [] if self.is_nonsense else EventReference.newest_events(self.word, own_ids(self.request))


class OfWebhooksFilter(WordFilter):
    """Filter by a property of webhooks. The rows of each webhook are adjacent in an index."""

    path = "webhook__"
    part_field = "webhook"

    @property
    def is_by_index(self) -> bool:
        return self.is_nonsense

    def among(self, webhooks: QuerySet[Any]) -> QuerySet[Any]:
        """Return the matching webhooks."""
        return webhooks.none() if self.is_nonsense else webhooks.filter(self.meant(""))


class OwnerOfWebhookFilter(OfWebhooksFilter, OwnerFilter):
    """Filter by the owner of the webhook."""


class WebhookForm(forms.Form):
    webhook = forms.CharField(label=_("ID (wh_…) or part of the URL"), required=False, max_length=MAX_URL_LENGTH)


class WebhookFilter(OfWebhooksFilter):
    title = _("webhook")
    parameter_names = ("webhook",)
    form_class = WebhookForm

    def meant(self, path: str) -> Q:
        return Q(**{f"{path}pk" if self.word.startswith("wh_") else f"{path}url__icontains": self.word})


class AnswerForm(forms.Form):
    answer = forms.CharField(label=_("Status code"), required=False, max_length=10, validators=[ANSWER])


class AnswerFilter(WordFilter):
    """Filter by the answer to the last attempt: a status, a class of statuses, or none in time."""

    title = _("answer")
    parameter_names = ("answer",)
    form_class = AnswerForm
    presets = {"4xx": "4xx", "5xx": "5xx", TIMEOUT: _("timeout")}  # noqa: RUF012

    def choices(self, changelist: Any) -> Iterator[Any]:
        yield self._all(changelist)
        typed = {} if self.word in self.presets or not self.word else {self.word: self.word}
        for value, label in {**self.presets, **typed}.items():
            query = changelist.get_query_string({self.parameter_name: value})
            yield {"selected": self.word == value, "query_string": query, "display": label}

    def narrowed(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        return with_answer(rows, self.word) if self.word else rows
