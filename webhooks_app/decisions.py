"""Why an event was sent to a webhook, or was not: as things were when it happened.

Emitting writes down only what is sent. What a webhook was like at that moment follows from what it is now and from what
was changed since, which the audit entries tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from .conf import settings
from .event_types import INTERNAL_EVENT_TYPES, OPERATIONAL_EVENT_TYPES
from .ids import first_id_at, time_of
from .models import AuditEntry, Delivery, Event, Webhook
from .models.audit import Action

MAX_WEBHOOKS = 200
MAX_DELIVERIES = 1000
MAX_CHANGES = 2000

MADE_WITH_EVENT = timedelta(seconds=10)
"""What was made later than this after its event was not made by emitting it, also where its replay is gone."""

CHANGING = (
    Action.WEBHOOK_CHANGED,
    Action.WEBHOOK_DISABLED,
    Action.WEBHOOK_ENABLED,
    Action.VERIFICATION_STARTED,
    Action.WEBHOOK_VERIFIED,
    Action.VERIFICATION_FAILED,
)
"""What changes whether a webhook gets an event."""


Earlier = Mapping[str, Mapping[str, Any]]
"""By webhook, what some of its fields were."""


class Reason(models.TextChoices):
    SENT = "sent", _("It was active, and subscribed to the type.")
    REPLAYED = "replayed", _("It did not get it when it happened, but later, by hand or by a replay.")
    NOT_SUBSCRIBED = "not_subscribed", _("It was not subscribed to the type.")
    REGISTERED_LATER = "registered_later", _("It was registered later.")
    PENDING = "pending", _("It was not verified yet.")
    FAILED = "failed", _("Its verification had failed.")
    DISABLED = "disabled", _("It was disabled.")
    ABOUT_ITSELF = "about_itself", _("No webhook is told of itself.")
    DELETED = "deleted", _("It had been deleted.")
    NOT_RECORDED = "not_recorded", _("Nothing that is still recorded says why.")


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """Whether an event was sent to a webhook, and why; ``delivery`` is the first that was made of it."""

    webhook: Webhook
    reason: Reason
    delivery: Delivery | None = None

    @property
    def is_sent(self) -> bool:
        return self.delivery is not None


def decide(event: Event, *, with_platform: bool = False) -> list[Decision]:
    """Return for each webhook of the event's owner why it was sent the event or not, in at most four queries.

    The platform's own are for those who may see them. First come those that got it; of more than MAX_WEBHOOKS, the
    deleted ones and the oldest are left out. A test, or a notice of a retry, is for one webhook and concerns no other.
    """
    audience = _audience(event, with_platform=with_platform)
    delivered = _first_deliveries(event, audience)
    sent = [
        Decision(webhook=webhook, reason=_reason_sent(event, delivered[webhook.pk]), delivery=delivered[webhook.pk])
        for webhook in audience.filter(pk__in=delivered).order_by("-pk")
    ]
    if event.is_test or event.type in {internal.name for internal in INTERNAL_EVENT_TYPES}:
        return sent
    others = audience.exclude(pk__in=delivered).order_by(models.F("deleted_at").desc(nulls_first=True), "-pk")
    return [*sent, *_not_sent(event, list(others[: MAX_WEBHOOKS - len(sent)]))]


def _audience(event: Event, *, with_platform: bool) -> models.QuerySet[Webhook]:
    owners = models.Q(pk__in=())
    if event.owner_id is not None:
        owners |= models.Q(owner=event.owner_id)
    if with_platform:
        owners |= models.Q(owner=None)
    return Webhook.objects.filter(owners)


def _first_deliveries(event: Event, audience: models.QuerySet[Webhook]) -> dict[str, Delivery]:
    rows = Delivery.objects.filter(event=event, webhook__in=audience.order_by()).order_by("pk")
    found: dict[str, Delivery] = {}
    for delivery in rows[:MAX_DELIVERIES]:
        found.setdefault(delivery.webhook_id, delivery)
    return dict(list(found.items())[:MAX_WEBHOOKS])


def _reason_sent(event: Event, delivery: Delivery) -> Reason:
    is_later = time_of(delivery.pk) - time_of(event.pk) > MADE_WITH_EVENT
    return Reason.REPLAYED if is_later or delivery.replay_id else Reason.SENT


def _not_sent(event: Event, webhooks: list[Webhook]) -> list[Decision]:
    emitted_at = _emitted_at(event)
    earlier = _earlier_values(webhooks, emitted_at)
    reasons = {webhook.pk: _reason_not_sent(event.type, webhook, emitted_at, earlier) for webhook in webhooks}
    if (subject := _subject_of(event)) in reasons:
        reasons[subject] = Reason.ABOUT_ITSELF
    return [Decision(webhook=webhook, reason=reasons[webhook.pk]) for webhook in webhooks]


def _subject_of(event: Event) -> str:
    """Return the webhook that an operational event is about; "" for other events, and where the body is gone."""
    is_operational = event.type in {operational.name for operational in OPERATIONAL_EVENT_TYPES}
    return str(event.data["webhook_id"]) if is_operational and event.has_body else ""


def _emitted_at(event: Event) -> datetime:
    """Return when the webhooks were looked for, which is no earlier than the millisecond of its identifier."""
    return time_of(event.pk) + timedelta(milliseconds=1)


def _earlier_values(webhooks: list[Webhook], moment: datetime) -> Earlier | None:
    """Return by webhook what its fields were at the moment, of those that changed since; None where that is not known.

    What a field was before the first change after the moment is what it was at the moment.
    """
    if moment < timezone.now() - timedelta(days=settings.AUDIT_RETENTION_DAYS):
        return None
    entries = AuditEntry.objects.filter(
        subject__in=[webhook.pk for webhook in webhooks], action__in=CHANGING, pk__gte=first_id_at("aud", moment)
    )
    changes = list(entries.order_by("pk").values_list("subject", "changes")[: MAX_CHANGES + 1])
    if len(changes) > MAX_CHANGES:
        return None
    earlier: dict[str, dict[str, Any]] = {}
    for subject, changed in changes:
        for name, (before, _after) in changed.items():
            earlier.setdefault(subject, {}).setdefault(name, before)
    return earlier


def _reason_not_sent(event_type: str, webhook: Webhook, moment: datetime, earlier: Earlier | None) -> Reason:
    if webhook.deleted_at is not None and webhook.deleted_at <= moment:
        return Reason.DELETED
    if webhook.created_at > moment:
        return Reason.REGISTERED_LATER
    if earlier is None:
        return Reason.NOT_RECORDED
    then = {"status": webhook.status, "event_types": webhook.event_types, **earlier.get(webhook.pk, {})}
    if event_type not in then["event_types"]:
        return Reason.NOT_SUBSCRIBED
    if then["status"] == Webhook.Status.ACTIVE:
        return Reason.NOT_RECORDED
    return Reason(then["status"])
