"""Tries of a filter on past events: on a single one, and on the last ones, with an example of each result."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from itertools import islice
from typing import Any

from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from ..conf import parse_filter
from ..exceptions import FilterBudgetError
from ..filters import EMISSION_STEPS, Filter, Mismatch
from ..models import Event, Webhook
from .admission import events_for, is_subscribed

MAX_PREVIEWED = 100
"""Maximum number of events on which the filter is evaluated."""

MAX_EXAMINED = 2000
"""Maximum number of events in which those of the subscribed types are searched for."""


def try_filter(webhook: Webhook, event: Event, source: Any) -> Mismatch | None:
    """Return the condition of a filter that a past event does not satisfy; None if it matches.

    ``source`` is the filter as JSON, or None for no filter. Raise ValidationError for a filter that is not valid for
    the webhook or takes too many steps, and for an event whose data is no longer stored.
    """
    tried = copy(webhook)
    tried.filter = source
    tried.clean_filter()
    if not event.has_body:
        raise ValidationError({"event_id": _("The data of this event is no longer kept.")})
    try:
        return None if source is None else parse_filter(source).mismatch(event.data)
    except FilterBudgetError:
        message = _("This filter takes more than %(most)d steps for this event. Only workers evaluate it further.")
        raise ValidationError({"filter": message % {"most": EMISSION_STEPS}}) from None


@dataclass(frozen=True, kw_only=True, slots=True)
class Preview:
    """The result of a filter on the last events of the subscribed types, whose data is still stored."""

    evaluated: int = 0
    matched: int = 0
    match: Event | None = None
    """The newest event that the filter matches."""
    other: Event | None = None
    """The newest event that it does not match."""
    mismatch: Mismatch | None = None
    """The condition that ``other`` does not satisfy."""


def preview_filter(webhook: Webhook, source: Any) -> Preview:
    """Evaluate a filter on the last events of a webhook, which need not be saved; save nothing.

    ``source`` is the filter as JSON, or None for no filter. Only events of the webhook's owner and event types count.
    Raise ValidationError for a filter that is not valid for the webhook, or takes too many steps.
    """
    tried = copy(webhook)
    tried.filter = source
    tried.clean_filter()
    return _evaluated(None if source is None else parse_filter(source), _last_events(webhook))


def _last_events(webhook: Webhook) -> list[Event]:
    """Return the newest events of the subscribed types. Their bodies are read only for these."""
    events = Event.objects.using(webhook.alias)
    rows = events.filter(events_for(webhook)).order_by("-pk").values_list("pk", "type", "is_test")[:MAX_EXAMINED]
    subscribed = (pk for pk, event_type, is_test in rows if not is_test and is_subscribed(webhook, event_type))
    found = events.filter(pk__in=list(islice(subscribed, MAX_PREVIEWED))).order_by("-pk")
    return [event for event in found if event.has_body]


def _evaluated(checked: Filter | None, events: list[Event]) -> Preview:
    found = [(event, _mismatch(checked, event)) for event in events]
    matches = [event for event, mismatch in found if mismatch is None]
    others = [(event, mismatch) for event, mismatch in found if mismatch is not None]
    other, mismatch = others[0] if others else (None, None)
    return Preview(
        evaluated=len(found),
        matched=len(matches),
        match=matches[0] if matches else None,
        other=other,
        mismatch=mismatch,
    )


def _mismatch(checked: Filter | None, event: Event) -> Mismatch | None:
    try:
        return None if checked is None else checked.mismatch(event.data)
    except FilterBudgetError:
        message = _(
            "This filter takes more than %(most)d steps for the event %(id)s. Only workers evaluate it further."
        )
        raise ValidationError({"filter": message % {"most": EMISSION_STEPS, "id": event.pk}}) from None
