"""Filters of lists that the console and the customers' pages share: the answer of the receiver, and periods."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db.models import Exists, OuterRef, Q
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..models import DeliveryAttempt
from ..protocol.json_data import EARLIEST, LATEST
from .display import MomentInput

WITHIN = (MinValueValidator(EARLIEST), MaxValueValidator(LATEST))
"""Validators of times that have a four-digit year in every time zone."""

TIMEOUT = DeliveryAttempt.Result.TIMEOUT.value
ANSWER = RegexValidator(rf"^([1-5][0-9]{{2}}|[1-5]xx|{TIMEOUT})$", _("Enter a status such as 503, or 4xx or 5xx."))

DAYS = {"today": _("Today"), "yesterday": _("Yesterday")}
SPANS = {
    "hour": (_("Past hour"), timedelta(hours=1)),
    "day": (_("Past 24 hours"), timedelta(days=1)),
    "week": (_("Past 7 days"), timedelta(days=7)),
    "month": (_("Past 30 days"), timedelta(days=30)),
    "before_day": (_("More than a day ago"), timedelta(days=1)),
    "before_week": (_("More than 7 days ago"), timedelta(days=7)),
    "before_month": (_("More than 30 days ago"), timedelta(days=30)),
}
PERIODS = DAYS | {name: label for name, (label, _span) in SPANS.items()}


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


def last_answered(word: str) -> Q:
    """Return the condition for deliveries whose last attempt was answered with a status, such as 503 or 5xx.

    Only attempts with an answer are looked up.
    """
    first = int(word.replace("xx", "00"))
    last = first + 99 if word.endswith("xx") else first
    attempts = DeliveryAttempt.objects.filter(delivery=OuterRef("pk"), number=OuterRef("attempt_count"))
    return Q(attempt_count__gt=0) & Q(Exists(attempts.filter(response_status__range=(first, last))))


def with_answer(rows: Any, word: str) -> Any:
    """Return the deliveries with this answer to the last attempt: a status, such as 503 or 5xx, or none in time."""
    return rows.with_result(TIMEOUT) if word == TIMEOUT else rows.filter(last_answered(word))


def limits_of(period: str) -> tuple[datetime | None, datetime | None]:
    """Return the beginning and the end of one of the ``PERIODS``. Days are those of the current time zone."""
    if period in SPANS:
        edge = timezone.now() - SPANS[period][1]
        return (None, edge) if period.startswith("before") else (edge, None)
    now = timezone.localtime() if settings.USE_TZ else timezone.now()
    today, day = now.replace(hour=0, minute=0, second=0, microsecond=0), timedelta(days=1)
    return (today, today + day) if period == "today" else (today - day, today)
