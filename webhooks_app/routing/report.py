"""The report on an event: the reason why each webhook received it or not, by its state at that time.

Emission records only deliveries. The earlier values of a webhook are derived from its current values and the audit
entries of later changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import starmap
from operator import itemgetter
from typing import Any, NamedTuple

from django.db import models
from django.utils import timezone

from ..conf import settings
from ..database.sql import having_ids
from ..models import AuditEntry, Delivery, Event, Webhook
from ..models.audit import Action
from ..models.delivery import MISMATCHED
from ..protocol.ids import first_id_at, time_of
from .admission import (
    AUDITED_FIELDS,
    CERTAIN_CONDITIONS,
    Reason,
    RoutedEvent,
    admits,
    audience,
    emitted_at,
    first_refusal,
    is_routed,
    mismatch,
)

MAX_DECISIONS = 200
MAX_DELIVERIES = 4000
MAX_CHANGES = 1500

MADE_WITH_EVENT = timedelta(seconds=10)
"""A delivery created later than this after its event was not created by emission, even if its replay was deleted."""

CHANGING = (
    Action.WEBHOOK_CHANGED,
    Action.WEBHOOK_DISABLED,
    Action.WEBHOOK_ENABLED,
    Action.VERIFICATION_STARTED,
    Action.WEBHOOK_VERIFIED,
    Action.VERIFICATION_FAILED,
)
"""Actions that change the fields of the rule."""


class _Read(NamedTuple):
    """The facts by which the first delivery to each webhook is chosen."""

    pk: str
    webhook_id: str
    state: str
    state_reason: str


Earlier = Mapping[str, Mapping[str, Any]]
"""Earlier values of fields, by webhook."""

REPORTED = [(reason.value, reason.label) for reason in Reason if reason != Reason.OTHER_OWNER]
"""Choices for a report on webhooks of the event's owner or the platform."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """Whether an event was sent to a webhook, and why.

    ``delivery`` is the first one, but not one that ended without a match of the filter if there is another.
    """

    webhook: Webhook
    reason: Reason
    delivery: Delivery | None = None
    detail: str = ""
    """The condition of the filter that the data did not satisfy."""

    @property
    def is_sent(self) -> bool:
        return self.delivery is not None and self.reason not in (Reason.FILTERED, Reason.FILTER_PENDING)

    @property
    def explanation(self) -> str:
        """The reason as a sentence, or the unsatisfied condition of the filter."""
        return f"{self.detail}." if self.detail else str(self.reason.label)


def decide(event: Event, *, with_platform: bool = False) -> list[Decision]:
    """Return a decision for each webhook of the event's owner, in at most five queries.

    ``with_platform`` adds the platform's webhooks. Webhooks that got the event come first. Of more than MAX_DECISIONS,
    those whose delivery failed are kept, and then the newest deliveries; among the others, deleted webhooks and the
    oldest ones are omitted. An event addressed to one webhook concerns no other.
    """
    webhooks = _webhooks(event, with_platform=with_platform)
    delivered = _first_deliveries(event, with_platform=with_platform)
    sent = [
        Decision(webhook=webhook, reason=_reason_sent(event, delivered[webhook.pk]), delivery=delivered[webhook.pk])
        for webhook in webhooks.filter(pk__in=delivered).order_by("-pk")
    ]
    if not is_routed(event):
        return sent
    others = webhooks.exclude(pk__in=delivered).order_by(models.F("deleted_at").desc(nulls_first=True), "-pk")
    return [*sent, *_not_sent(event, list(others[: MAX_DECISIONS - len(sent)]))]


def _webhooks(event: Event, *, with_platform: bool) -> models.QuerySet[Webhook]:
    found = Webhook.objects.filter(audience(event.owner_id))
    return found if with_platform else found.filter(owner__isnull=False)


def _first_deliveries(event: Event, *, with_platform: bool) -> dict[str, Delivery]:
    rows = Delivery.objects.filter(event=event).order_by()
    if not with_platform:
        rows = rows.filter(webhook__owner__isnull=False)
    first: dict[str, _Read] = {}
    # Sorted here, because a database would read all of them for an order of its own.
    for read in sorted(starmap(_Read, rows.values_list(*_Read._fields)[:MAX_DELIVERIES])):
        if read.webhook_id not in first or first[read.webhook_id].state_reason == MISMATCHED:
            first[read.webhook_id] = read
    newest_first = sorted(first.values(), reverse=True)
    failed_first = sorted(newest_first, key=lambda read: read.state not in Delivery.LISTED_STATES)
    chosen = Delivery.objects.filter(pk__in=[read.pk for read in failed_first[:MAX_DECISIONS]])
    return {delivery.webhook_id: delivery for delivery in chosen.select_related("queue_entry").order_by()}


def _reason_sent(event: Event, delivery: Delivery) -> Reason:
    if delivery.state_reason == MISMATCHED:
        return Reason.FILTERED
    if delivery.entry is not None and delivery.entry.filter_at is not None:
        return Reason.FILTER_PENDING
    is_later = time_of(delivery.pk) - time_of(event.pk) > MADE_WITH_EVENT
    return Reason.REPLAYED if is_later or delivery.replay_id else Reason.SENT


def _not_sent(event: Event, webhooks: list[Webhook]) -> list[Decision]:
    routed, earlier = RoutedEvent.of(event), _earlier_values(webhooks, emitted_at(event))
    return [_not_sent_to(webhook, routed, earlier) for webhook in webhooks]


def _not_sent_to(webhook: Webhook, event: RoutedEvent, earlier: Earlier | Reason) -> Decision:
    if isinstance(earlier, Reason):
        return Decision(webhook=webhook, reason=first_refusal(CERTAIN_CONDITIONS, webhook, event) or earlier)
    then = _as_it_was(webhook, earlier.get(webhook.pk, {}))
    reason = admits(then, event)
    if reason == Reason.FILTERED:
        return Decision(webhook=webhook, reason=reason, detail=str(mismatch(then, event)))
    is_unknown = reason in (Reason.SENT, Reason.FILTER_PENDING)
    return Decision(webhook=webhook, reason=Reason.NOT_RECORDED if is_unknown else reason)


def _earlier_values(webhooks: list[Webhook], moment: datetime) -> Earlier | Reason:
    """Return earlier values by webhook, of the fields that changed since the moment, or why they are unknown.

    The value at the moment is the old value in the first later change.
    """
    if moment < timezone.now() - timedelta(days=settings.AUDIT_RETENTION_DAYS):
        return Reason.NOT_RECORDED
    subjects = [webhook.pk for webhook in webhooks]
    later = AuditEntry.objects.filter(action__in=CHANGING, pk__gte=first_id_at("aud", moment))
    entries = having_ids(later, subjects, field="subject").order_by()
    # Sorted here, because a database would read all of them for that.
    found = list(entries.values_list("pk", "subject", "changes")[: MAX_CHANGES + 1])
    if len(found) > MAX_CHANGES:
        return Reason.TOO_MANY_CHANGES
    earlier: dict[str, dict[str, Any]] = {}
    for _, subject, changed in sorted(found, key=itemgetter(0)):
        for name, (before, _after) in changed.items():
            earlier.setdefault(subject, {}).setdefault(name, before)
    return earlier


def _as_it_was(webhook: Webhook, earlier: Mapping[str, Any]) -> Webhook:
    then = copy(webhook)
    for name in AUDITED_FIELDS:
        setattr(then, name, earlier.get(name, getattr(webhook, name)))
    return then
