"""The rule that selects the webhooks for an event.

Each condition has two forms that must agree: a query, by which emission selects webhooks in its one statement, and a
refusal, which explains the result for one webhook. A new condition is a class here and an entry of CONDITIONS.

The evaluation of a stored filter never raises, and never takes longer than it may.
"""

from __future__ import annotations

import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from functools import lru_cache
from typing import Any, ClassVar

from django.db import models
from django.db.models.functions import Cast, Concat
from django.db.models.lookups import GreaterThan
from django.utils.translation import gettext_lazy as _

from ..conf import parse_filter, settings
from ..database.sql import Position
from ..event_types import INTERNAL_NAMES, OPERATIONAL_NAMES
from ..event_types.base import NAME_PATTERN
from ..exceptions import FilterBudgetError
from ..filters import EMISSION_STEPS, WORKER_STEPS, Filter, Mismatch
from ..models import Event, Webhook
from ..models.fields import compact_json
from ..models.webhook import WebhookQuerySet
from ..once import Once
from ..protocol.ids import time_of

logger = logging.getLogger("webhooks_app.routing")

MAX_PARSED = 4096
"""Parsed filters in memory, of about 2 KiB each. Parsing takes thirty times as long as evaluating."""

_reported = Once()
"""Webhooks and filters with a logged problem."""

ROUTED = models.Q(is_test=False) & ~models.Q(type__in=INTERNAL_NAMES)
"""A condition on events. It excludes tests and internal messages, which are addressed to one webhook."""

NO_WEBHOOK = models.Q(pk__in=())


class FilterResult(Enum):
    MATCH = "match"
    MISMATCH = "mismatch"
    PENDING = "pending"
    """The filter cannot be read, or takes more steps than it may. The delivery is held with ``filter_pending``."""


def evaluate_filter(
    webhook_id: str, source: str, data: Mapping[str, Any], *, steps: int = EMISSION_STEPS
) -> FilterResult:
    """Return whether the data satisfies a webhook's filter, given as JSON. A problem is logged once for each filter."""
    found = _parsed(source, tuple(settings.FILTER_OPERATORS))
    if isinstance(found, str):
        _report(webhook_id, source, found)
        return FilterResult.PENDING
    try:
        return FilterResult.MATCH if found.holds(data, steps=steps) else FilterResult.MISMATCH
    except FilterBudgetError:
        if steps >= WORKER_STEPS:
            _report(webhook_id, source, f"it takes more than {steps:,} steps for an event.")
    except Exception as error:  # noqa: BLE001 - operators of the project may raise anything
        _report(webhook_id, source, f"{type(error).__name__}: {error}")
    return FilterResult.PENDING


def is_readable(source: str) -> bool:
    """Return True if a filter given as JSON can be parsed."""
    return isinstance(_parsed(source, tuple(settings.FILTER_OPERATORS)), Filter)


@lru_cache(maxsize=MAX_PARSED)
def _parsed(source: str, operators: tuple[str, ...]) -> Filter | str:
    """Return the filter, or the problem with it. ``operators`` are those of the settings, on which it depends."""
    try:
        return parse_filter(json.loads(source))
    except Exception as error:  # noqa: BLE001 - operators of the project may raise anything
        return str(error) or type(error).__name__


def _report(webhook_id: str, source: str, problem: str) -> None:
    if not _reported.is_first((webhook_id, hash(source))):
        return
    text = "The filter of webhook %s cannot be evaluated, and its deliveries are held until it is changed: %s"
    logger.error(text, webhook_id, problem, extra={"webhook_id": webhook_id})


class Reason(models.TextChoices):
    SENT = "sent", _("It was active, and subscribed to the type.")
    REPLAYED = "replayed", _("It received the event later, by a redelivery or a replay.")
    NOT_SUBSCRIBED = "not_subscribed", _("It was not subscribed to the type.")
    REGISTERED_LATER = "registered_later", _("It was registered later.")
    PENDING = "pending", _("It was not verified yet.")
    FAILED = "failed", _("Its verification had failed.")
    DISABLED = "disabled", _("It was disabled.")
    ABOUT_ITSELF = "about_itself", _("The event is about this webhook.")
    FILTERED = "filtered", _("Its filter does not match the data.")
    FILTER_PENDING = "filter_pending", _("Its filter is not evaluated yet.")
    DELETED = "deleted", _("It had been deleted.")
    OTHER_OWNER = "other_owner", _("The event belongs to another account.")
    NOT_RECORDED = "not_recorded", _("The reason is no longer recorded.")
    TOO_MANY_CHANGES = "too_many_changes", _("Webhooks have changed too often since then to find the reason.")


_REASONS = {
    FilterResult.MATCH: None,
    FilterResult.MISMATCH: Reason.FILTERED,
    FilterResult.PENDING: Reason.FILTER_PENDING,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class RoutedEvent:
    """The properties of an event that determine the webhooks that receive it."""

    type: Any
    """The name, or an SQL value for it. The owner can be an SQL value too."""
    owner_id: Any = None
    subject_id: str = ""
    """The webhook that an operational event is about."""
    emitted_at: datetime | None = None
    """None for the current time."""
    data: Mapping[str, Any] | None = None
    """None if unknown; no filter is evaluated then."""

    @classmethod
    def of(cls, event: Event) -> RoutedEvent:
        return cls(
            type=event.type,
            owner_id=event.owner_id,
            subject_id=subject_of(event),
            emitted_at=emitted_at(event),
            data=event.data if event.has_body else None,
        )


class Condition(ABC):
    depends_on_state: ClassVar[bool] = False
    """True for a condition on the webhook's status or age rather than on its registration."""
    audited_fields: ClassVar[tuple[str, ...]] = ()
    """Fields that it reads and that may have changed since an event. Audit entries have their earlier values."""

    @abstractmethod
    def query(self, event: RoutedEvent) -> Any:
        """Return the SQL condition on webhooks."""

    @abstractmethod
    def refusal(self, webhook: Webhook, event: RoutedEvent) -> Reason | None:
        """Return the reason why the webhook does not get the event; None if this condition holds."""


class OwnerCondition(Condition):
    def query(self, event: RoutedEvent) -> models.Q:
        return audience(event.owner_id)

    def refusal(self, webhook: Webhook, event: RoutedEvent) -> Reason | None:
        return None if webhook.owner_id in (None, event.owner_id) else Reason.OTHER_OWNER


class SubjectCondition(Condition):
    def query(self, event: RoutedEvent) -> models.Q:
        return ~models.Q(pk=event.subject_id) if event.subject_id else models.Q()

    def refusal(self, webhook: Webhook, event: RoutedEvent) -> Reason | None:
        return Reason.ABOUT_ITSELF if webhook.pk == event.subject_id else None


class DeletionCondition(Condition):
    depends_on_state = True

    def query(self, event: RoutedEvent) -> models.Q:
        return models.Q(deleted_at=None)

    def refusal(self, webhook: Webhook, event: RoutedEvent) -> Reason | None:
        if webhook.deleted_at is None:
            return None
        is_earlier = event.emitted_at is None or webhook.deleted_at <= event.emitted_at
        return Reason.DELETED if is_earlier else None


class RegistrationCondition(Condition):
    depends_on_state = True

    def query(self, event: RoutedEvent) -> models.Q:
        return models.Q()  # A row selected now was registered before; clocks are not compared.

    def refusal(self, webhook: Webhook, event: RoutedEvent) -> Reason | None:
        is_later = event.emitted_at is not None and webhook.created_at > event.emitted_at
        return Reason.REGISTERED_LATER if is_later else None


class SubscriptionCondition(Condition):
    audited_fields = ("event_types",)

    def query(self, event: RoutedEvent) -> Any:
        return subscribed_to(event.type)

    def refusal(self, webhook: Webhook, event: RoutedEvent) -> Reason | None:
        return None if is_subscribed(webhook, event.type) else Reason.NOT_SUBSCRIBED


class StatusCondition(Condition):
    depends_on_state = True
    audited_fields = ("status",)

    def query(self, event: RoutedEvent) -> models.Q:
        return models.Q(status=Webhook.Status.ACTIVE)

    def refusal(self, webhook: Webhook, event: RoutedEvent) -> Reason | None:
        return None if webhook.status == Webhook.Status.ACTIVE else Reason(webhook.status)


class FilterCondition(Condition):
    audited_fields = ("filter",)

    def query(self, event: RoutedEvent) -> models.Q:
        return models.Q()  # Evaluated in Python, for the webhooks that have a filter.

    def refusal(self, webhook: Webhook, event: RoutedEvent) -> Reason | None:
        if webhook.filter is None or event.data is None:
            return None
        return _REASONS[evaluate_filter(webhook.pk, compact_json(webhook.filter), event.data)]


CONDITIONS: tuple[Condition, ...] = (
    OwnerCondition(),
    SubjectCondition(),
    DeletionCondition(),
    RegistrationCondition(),
    SubscriptionCondition(),
    StatusCondition(),
    FilterCondition(),
)
"""All must hold; the first that does not is the reason."""

LASTING_CONDITIONS = tuple(condition for condition in CONDITIONS if not condition.depends_on_state)
CERTAIN_CONDITIONS = tuple(condition for condition in CONDITIONS if not condition.audited_fields)
AUDITED_FIELDS = tuple(name for condition in CONDITIONS for name in condition.audited_fields)


def webhooks_for(event: RoutedEvent, using: str) -> WebhookQuerySet:
    """Return the webhooks that get an event emitted now, before their filters are evaluated."""
    found: WebhookQuerySet = Webhook.objects.using(using).filter(*(each.query(event) for each in CONDITIONS))
    return found


def first_refusal(conditions: Sequence[Condition], webhook: Webhook, event: RoutedEvent) -> Reason | None:
    refusals = (condition.refusal(webhook, event) for condition in conditions)
    return next((reason for reason in refusals if reason is not None), None)


def admits(webhook: Webhook, event: RoutedEvent) -> Reason:
    """Return SENT, or the reason why the webhook does not get the event. Pass its fields at the time of the event."""
    return first_refusal(CONDITIONS, webhook, event) or Reason.SENT


def lasting_refusal(webhook: Webhook, event: RoutedEvent) -> Reason | None:
    """Return the reason why a webhook with this owner, these event types and this filter does not get the event."""
    return first_refusal(LASTING_CONDITIONS, webhook, event)


def concerns(webhook: Webhook, event: RoutedEvent) -> bool:
    """Return True if the webhook would get the event if it were active, or may get it once its filter is evaluated."""
    return lasting_refusal(webhook, event) in (None, Reason.FILTER_PENDING)


def mismatch(webhook: Webhook, event: RoutedEvent) -> Mismatch | None:
    """Return the condition of the webhook's filter that the event's data does not satisfy; None if there is none."""
    if webhook.filter is None or event.data is None:
        return None
    return parse_filter(webhook.filter).mismatch(event.data)


def audience(owner_id: Any) -> models.Q:
    """Return the condition on webhooks that may get an owner's events: the owner's own and the platform's."""
    platform = models.Q(owner=None)
    return platform if owner_id is None else platform | models.Q(owner=owner_id)


def events_for(webhook: Webhook) -> models.Q:
    """Return the condition on events that the webhook may get: those of its owner, or all for the platform."""
    return models.Q() if webhook.owner_id is None else models.Q(owner=webhook.owner_id)


def subscribed_to(event_type: str | models.Value) -> Any:
    """Return the condition on webhooks that are subscribed to an event type.

    A JSON list is searched as text, because SQLite has no ``contains`` for JSON. The result is exact, because the names
    of event types have no characters that JSON escapes. A text that is not a valid name matches no webhook.
    """
    if isinstance(event_type, str):
        if not NAME_PATTERN.fullmatch(event_type):
            return NO_WEBHOOK
        event_type = models.Value(event_type)
    quoted = Concat(models.Value('"'), event_type, models.Value('"'), output_field=models.TextField())
    return GreaterThan(Position(Cast("event_types", models.TextField()), quoted), 0)


def is_subscribed(webhook: Webhook, event_type: str) -> bool:
    """Return True if the webhook is subscribed to the event type."""
    return event_type in webhook.event_types


def is_routed(event: Event) -> bool:
    """Return False for an event that is addressed to one webhook: a test or an internal message."""
    return not event.is_test and event.type not in INTERNAL_NAMES


def subject_of(event: Event) -> str:
    """Return the webhook that an operational event is about; "" for other events, and once the body is gone."""
    is_operational = event.type in OPERATIONAL_NAMES and event.has_body
    return str(event.data.get("webhook_id", "")) if is_operational else ""


def emitted_at(event: Event) -> datetime:
    """Return the time at which the webhooks for an event were selected, from its identifier, rounded down."""
    return time_of(event.pk) + timedelta(milliseconds=1)
