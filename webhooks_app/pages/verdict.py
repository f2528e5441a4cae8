"""The verdict of an overview: a word and a sentence about all webhooks of an account."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import Case, CharField, QuerySet, Value, When
from django.utils.translation import gettext, ngettext

from ..maintenance.rollups.reading import Counters
from ..models import Webhook
from ..models.standing import Standing, conditions
from .display import percent

MAX_JUDGED = 2000
"""The most webhooks that an overview judges. Of each it reads its row, its health and at most two entries of the queue:
8,000 of the 10,000 rows that a page may read."""


class Verdict(NamedTuple):
    tone: str
    """As that of a ``Standing``."""
    state: Any
    cause: str
    about: str = ""
    """What its rows are found by: a ``Standing`` of webhooks, or a name that the face knows; "" if all is well."""


class Attention(NamedTuple):
    """The webhooks that need attention among those that were judged."""

    number: int
    """The number of webhooks that were judged, at most ``MAX_JUDGED``."""
    is_whole: bool
    """Whether these are all."""
    webhooks: Sequence[tuple[Standing, str]]
    """The standing and the identifier of each: the gravest first, and of these in the given order."""


def attention_in(webhooks: QuerySet[Webhook], now: datetime) -> Attention:
    """Return which of the first webhooks need attention."""
    cases = {each: is_it for each, is_it in conditions(now).items() if each.tone in ("bad", "late")}
    standing = Case(*(When(is_it, then=Value(each.value)) for each, is_it in cases.items()), output_field=CharField())
    standings = list(webhooks.values_list("pk", standing)[: MAX_JUDGED + 1])
    judged = standings[:MAX_JUDGED]
    attention = [(each, pk) for each in Standing for pk, standing in judged if standing == each]
    return Attention(len(judged), len(standings) <= MAX_JUDGED, attention)


def verdict_of(attention: Attention, day: Counters) -> Verdict:
    """Return the verdict of some webhooks and their results."""
    if not attention.number:
        cause = gettext("Create one to be told about events as they happen.")
        return Verdict("open", gettext("No webhooks yet"), cause)
    if attention.webhooks:
        (gravest, _pk), most = attention.webhooks[0], len(attention.webhooks)
        text = ngettext("%(number)d webhook needs attention.", "%(number)d webhooks need attention.", most)
        return Verdict(gravest.tone, gravest.label, text % {"number": most}, gravest.value)
    if not day.finished:
        return Verdict("good", Standing.HEALTHY.label, gettext("There were no deliveries in the last 24 hours."))
    text = gettext("%(rate)s of the deliveries of the last 24 hours succeeded.")
    return Verdict("good", Standing.HEALTHY.label, text % {"rate": percent(day.succeeded, day.finished)})
