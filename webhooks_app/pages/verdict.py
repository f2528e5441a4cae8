"""The verdict of an overview: a word and a sentence about all webhooks of an account."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import Case, CharField, Value, When
from django.utils.translation import gettext, ngettext

from ..maintenance.rollups.reading import Counters
from ..models.standing import Standing, conditions
from .display import percent


class Verdict(NamedTuple):
    tone: str
    """As that of a ``Standing``."""
    state: Any
    cause: str


def attention_of(now: datetime) -> Case:
    """Return the standing of a webhook, if it needs attention, as an expression."""
    cases = {each: is_it for each, is_it in conditions(now).items() if each.tone in ("bad", "late")}
    return Case(*(When(is_it, then=Value(each.value)) for each, is_it in cases.items()), output_field=CharField())


def verdict_of(number: int, attention: Sequence[str], day: Counters) -> Verdict:
    """Return the verdict of this number of webhooks, from the standings of those that need attention."""
    if not number:
        cause = gettext("Create one to be told about events as they happen.")
        return Verdict("open", gettext("No webhooks yet"), cause)
    if attention:
        gravest, most = min(map(Standing, attention), key=list(Standing).index), len(attention)
        text = ngettext("%(number)d webhook needs attention.", "%(number)d webhooks need attention.", most)
        return Verdict(gravest.tone, gravest.label, text % {"number": most})
    if not day.finished:
        return Verdict("good", Standing.HEALTHY.label, gettext("There were no deliveries in the last 24 hours."))
    text = gettext("%(rate)s of the deliveries of the last 24 hours succeeded.")
    return Verdict("good", Standing.HEALTHY.label, text % {"rate": percent(day.succeeded, day.finished)})
