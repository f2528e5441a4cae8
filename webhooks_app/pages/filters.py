"""The forms of filters, the answers of receivers, and periods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from django import forms
from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db.models import Exists, OuterRef, Q
from django.utils import timezone
from django.utils.text import capfirst
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..models import DeliveryAttempt
from ..protocol.json_data import EARLIEST, LATEST
from .display import MomentInput

if TYPE_CHECKING:
    from .listing import ListFilter

Suggested: TypeAlias = "Iterable[tuple[str, Any]] | forms.Field"

NO_SUGGESTIONS: Mapping[str, Suggested] = MappingProxyType({})

WITHIN = (MinValueValidator(EARLIEST), MaxValueValidator(LATEST))
"""Validators of times that have a four-digit year in every time zone."""

TIMEOUT = DeliveryAttempt.Result.TIMEOUT.value
ANSWER = RegexValidator(rf"^([1-5][0-9]{{2}}|[1-5]xx|{TIMEOUT})$", _("Enter a status such as 503, or 4xx or 5xx."))

DAYS = {"today": _("Today"), "yesterday": _("Yesterday")}
PERIOD_SPANS = {
    "hour": (_("Past hour"), timedelta(hours=1)),
    "day": (_("Past 24 hours"), timedelta(days=1)),
    "week": (_("Past 7 days"), timedelta(days=7)),
    "month": (_("Past 30 days"), timedelta(days=30)),
    "before_day": (_("More than a day ago"), timedelta(days=1)),
    "before_week": (_("More than 7 days ago"), timedelta(days=7)),
    "before_month": (_("More than 30 days ago"), timedelta(days=30)),
}
PERIOD_CHOICES = DAYS | {name: label for name, (label, _span) in PERIOD_SPANS.items()}


def moment_field(label: Any, **more: Any) -> forms.DateTimeField:
    """Return an optional field for a time."""
    return forms.DateTimeField(label=label, required=False, widget=MomentInput, validators=WITHIN, **more)


class PeriodForm(forms.Form):
    """A form in which each field ``…_before`` must be later than the field ``…_after`` of the same name."""

    def clean(self) -> None:
        for name in [name for name in self.fields if name.endswith("_before")]:
            since = self.cleaned_data.get(name.replace("_before", "_after"))
            until = self.cleaned_data.get(name)
            if since and until and until <= since:
                self.add_error(name, gettext("The end of the period must be later than its beginning."))


class IntervalForm(PeriodForm):
    """A form with an interval of results, for ``Period.of``."""

    seen_after = moment_field(_("From"))
    seen_before = moment_field(_("To"))
    longest: timedelta | None = None

    def clean(self) -> None:
        super().clean()
        since, until = self.cleaned_data.get("seen_after"), self.cleaned_data.get("seen_before") or timezone.now()
        if since and self.longest and until - since > self.longest:
            text = gettext("Enter a period of at most %(number)d days.")
            self.add_error("seen_after", text % {"number": self.longest.days})


class FilterForm(PeriodForm):
    """The form of some filters. Each face passes its own field for times.

    ``suggestions`` has the choices of filters that take a text. They do not exclude others: a type may have left the
    catalogue, and its rows remain. Instead of choices, it may have a field.
    """

    def __init__(
        self,
        *args: Any,
        filters: Iterable[ListFilter],
        suggestions: Mapping[str, Suggested] = NO_SUGGESTIONS,
        moment: Callable[[Any], forms.Field] = moment_field,
        is_page: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._is_page = is_page
        for each in filters:
            self.fields[each.name] = self._field(each, suggestions.get(each.name), moment, is_page=is_page)

    def clean(self) -> None:
        """Refuse a reversed period on a page. In the API it is a valid request, whose list is empty."""
        if self._is_page:
            super().clean()

    def _field(self, described: ListFilter, suggested: Any, moment: Any, *, is_page: bool) -> forms.Field:
        if isinstance(suggested, forms.Field):
            return suggested
        label = capfirst(described.label)
        shared: dict[str, Any] = {"required": False, "help_text": described.hint}
        if described.is_moment:
            field: forms.Field = moment(label)
            return field
        if described.values or suggested is not None:
            choices = {**dict(described.choices(is_page=is_page)), **dict(suggested or ())}
            given = self.data.get(described.name)
            if not described.values and given and given not in choices:
                choices[given] = given
            every = described.default.label if described.default else _("All")
            return forms.ChoiceField(label=label, choices=[("", every), *choices.items()], **shared)
        widget = forms.HiddenInput() if described.is_linked else forms.TextInput(attrs={"placeholder": described.hint})
        limits: dict[str, Any] = {"max_length": described.max_length, "validators": described.validators}
        return forms.CharField(label=label, widget=widget, **limits, **shared)


def codes_of(word: str) -> tuple[int, int]:
    """Return the lowest and the highest status of a word such as 503 or 5xx."""
    first = int(word.replace("xx", "00"))
    return first, first + 99 if word.endswith("xx") else first


def with_answer(rows: Any, word: str) -> Any:
    """Return the deliveries of which any attempt had this answer: a status, such as 503 or 5xx, or none in time.

    The primary key has the attempts of a delivery together. Only those of deliveries with an attempt are looked up. An
    owner does not find masked ones.
    """
    answered = Q(result=TIMEOUT) if word == TIMEOUT else Q(response_status__range=codes_of(word))
    shown = Q(is_masked=False) if rows.is_for_owner else Q()
    attempts = DeliveryAttempt.objects.filter(answered & shown, delivery=OuterRef("pk"))
    return rows.filter(Q(attempt_count__gt=0) & Q(Exists(attempts)))


def limits_of(period: str) -> tuple[datetime | None, datetime | None]:
    """Return the beginning and the end of one of the ``PERIOD_CHOICES``. Days are those of the current time zone."""
    if period in PERIOD_SPANS:
        edge = timezone.now() - PERIOD_SPANS[period][1]
        return (None, edge) if period.startswith("before") else (edge, None)
    now = timezone.localtime() if settings.USE_TZ else timezone.now()
    today, day = now.replace(hour=0, minute=0, second=0, microsecond=0), timedelta(days=1)
    return (today, today + day) if period == "today" else (today - day, today)
