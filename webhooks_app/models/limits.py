"""The limits of a webhook: validation of its event types, secret and limits, and its rate limit over all workers."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.core.exceptions import ValidationError
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from ..conf import settings
from ..event_types import registry
from ..exceptions import UnknownEventTypeError
from ..owners import event_types_for

MAX_EVENT_TYPES = 64
MAX_SIGNATURES = 8
SECRET_LENGTHS = range(16, 257)
MAX_SECRET_OVERLAP = timedelta(days=7)
MIN_RATE, MAX_RATE = 0.01, 10_000
MAX_IN_FLIGHT = 1000

BURST = timedelta(seconds=1)
"""The rate that an idle webhook accumulates: enough for batches, and 1/60 of a minute's deliveries."""

LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


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
            _("%(names)s: only a webhook without an account, the platform's, can subscribe to these."),
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


def check_activation(activate_at: datetime | None) -> None:
    """Raise ValidationError if a prepared secret would wait too long. A time in the past means at once."""
    if activate_at is not None and activate_at > timezone.now() + MAX_SECRET_OVERLAP:
        message = _("A new secret can be activated at once, or within the next 7 days.")
        raise ValidationError({"activate_at": message})


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


@dataclass(frozen=True, kw_only=True, slots=True)
class RateLimit:
    """A limit of ``per_second`` deliveries in evenly spaced slots. The next free one is at ``next_slot_at``."""

    per_second: float
    next_slot_at: datetime

    @classmethod
    def of(cls, per_second: float, next_slot_at: datetime | None) -> RateLimit:
        """Return a limit from its stored values. Without a ``next_slot_at``, nothing has been sent yet."""
        return cls(per_second=per_second, next_slot_at=next_slot_at or LONG_AGO)

    def allowance(self, now: datetime) -> int:
        """Return the number of deliveries that may start now."""
        waited = (now - self._first_slot(now)).total_seconds()
        return 0 if waited < 0 else int(waited * self._rate) + 1

    def withholds_notices(self, now: datetime) -> bool:
        """Return True if at most one delivery may start now, which is reserved for a retry."""
        return self.allowance(now) < 2

    def after(self, number: int, now: datetime) -> RateLimit:
        """Return the limit after the start of ``number`` deliveries."""
        taken = timedelta(seconds=number / self._rate)
        return RateLimit(per_second=self.per_second, next_slot_at=self._first_slot(now) + taken)

    @property
    def _rate(self) -> float:
        """The rate, forced into the range of ``Webhook.rate_limit``: rows inserted by other means can be outside."""
        return min(MAX_RATE, max(MIN_RATE, self.per_second))

    def _first_slot(self, now: datetime) -> datetime:
        return max(now - BURST, self.next_slot_at)
