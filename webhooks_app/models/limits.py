"""Validation of a webhook's event types, secret and limits."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection
from datetime import timedelta
from typing import Any

from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from ..conf import settings
from ..event_types import registry
from ..exceptions import UnknownEventTypeError
from .visibility import event_types_for

MAX_EVENT_TYPES = 64
MAX_SIGNATURES = 8
SECRET_LENGTHS = range(16, 257)
MAX_SECRET_OVERLAP = timedelta(days=7)
MIN_RATE, MAX_RATE = 0.01, 10_000
MAX_IN_FLIGHT = 1000


def check_event_types(names: Any, *, owner: Any | None, saved: Collection[str] = ()) -> list[str]:
    """Return the names without duplicates.

    Raise ValidationError unless a webhook of this owner, or of the platform for None, can subscribe to all of them.
    The ``saved`` ones remain allowed, even if they are hidden or no longer registered.
    """
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValidationError(_('Give a list of event types, such as ["invoice.paid"].'))
    found = list(dict.fromkeys(names))
    new = [name for name in found if name not in saved]
    if owner is not None and (operational := [name for name in new if registry.is_operational(name)]):
        raise ValidationError(
            _("%(names)s: only a webhook without an owner, the platform's, can subscribe to these."),
            code="operational_event_type",
            params={"names": ", ".join(operational)},
        )
    visible = event_types_for(owner)
    try:
        for name in new:
            visible.get(name)
    except UnknownEventTypeError as error:
        raise ValidationError(str(error), code="unknown_event_type") from None
    if not 1 <= len(found) <= MAX_EVENT_TYPES:
        raise ValidationError(
            _("Give 1 to %(limit)s event types."), code="event_types_count", params={"limit": MAX_EVENT_TYPES}
        )
    return found


def check_overlap(overlap: timedelta) -> None:
    """Raise ValidationError unless ``overlap`` is permitted."""
    if not timedelta(0) <= overlap <= MAX_SECRET_OVERLAP:
        raise ValidationError(_("The old secret can sign for 0 to 7 days."), code="overlap")


def most_in_flight() -> int:
    """Return the largest concurrency that an owner can choose: the default for every webhook."""
    return min(settings.MAX_IN_FLIGHT_PER_WEBHOOK, MAX_IN_FLIGHT)


def check_in_flight(number: int) -> None:
    """Raise ValidationError if an owner must not choose this concurrency."""
    limit = most_in_flight()
    if number > limit:
        message = _("Use at most %(limit)s concurrent requests, the default for every webhook. Staff can allow more.")
        raise ValidationError(message, code="max_in_flight", params={"limit": limit})


def check_secret(secret: str) -> None:
    """Raise ValidationError unless the secret has 16 to 256 characters and no control characters."""
    if len(secret) not in SECRET_LENGTHS:
        raise ValidationError(_("A secret has 16 to 256 characters."), code="secret_length")
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in secret):
        raise ValidationError(_("A secret has no control characters."), code="secret_characters")
