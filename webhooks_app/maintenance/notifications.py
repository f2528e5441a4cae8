"""Notifications about failing, recovered and disabled webhooks: operational events, signals and announcements.

What is announced is sent by mail later, see ``mailing``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from django.db import models, transaction

from ..emission import Operational, emit_operational
from ..event_types import (
    DELIVERY_GIVEN_UP,
    OPERATIONAL_NAMES,
    RECOVERY_ENDED,
    WEBHOOK_DISABLED,
    WEBHOOK_FAILING,
    WEBHOOK_RECOVERED,
)
from ..models import Announcement, Delivery, DeliveryAttempt, Episode, QueueEntry, Webhook, WebhookHealth
from ..models.disclosure import UNREACHABLE, masks
from ..models.problem import Cause
from ..models.status import DeliveryKind
from ..protocol.ids import new_id
from ..protocol.json_data import format_time
from ..reasons import code_of
from ..routing import RoutedEvent, webhooks_for
from ..signals import webhook_failing, webhook_recovered

if TYPE_CHECKING:
    from .health import Recovery, Rule

NOTIFIED_AT_A_TIME = 500

MOST_COUNTED = 10_000
"""Number of waiting events up to which they are counted, because counting reads an index entry for each."""

Kind = Announcement.Kind


def notify_failing(webhook: Webhook, health: WebhookHealth, rule: Rule, now: datetime, *, is_warning: bool) -> None:
    """Report a failing webhook, or warn that it will be disabled, in the transaction that records it."""
    using, since, cause = _database(webhook), begin_of(health), cause_of(health)
    facts: dict[str, Any] = {
        "failing_since": since,
        "failed_requests": health.refused_count,
        "given_up": health.given_up_count,
        "waiting": waiting_for(using, webhook.pk),
        "result": cause.result if cause else "",
        "status_code": cause.code or None if cause else None,
        "disables_at": rule.disables_at(health),
        "is_warning": is_warning,
    }
    data = {name: value for name, value in facts.items() if value is not None}
    emit_operational(using, [Operational(WEBHOOK_FAILING, webhook.pk, {**_about(webhook), **data})])
    signal = partial(webhook_failing.send_robust, Webhook, webhook_id=webhook.pk, **facts)
    transaction.on_commit(signal, using=using)
    kind = Kind.WARNING if is_warning else Kind.FAILING
    announce(using, [announcement(kind, now, since=since, webhook=webhook, **_shown(facts, webhook))])


def notify_recovered(using: str, recoveries: Sequence[Recovery]) -> None:
    """Report the recovered webhooks that are active, in the transaction that ends their failing periods."""
    ids = [recovery.webhook_id for recovery in recoveries]
    active = Webhook.objects.using(using).active()
    webhooks = {webhook.pk: webhook for webhook in active.filter(pk__in=ids).readable()} if ids else {}
    recovered = [(webhooks[each.webhook_id], each) for each in recoveries if each.webhook_id in webhooks]
    happenings, announcements = [], []
    for webhook, recovery in recovered:
        facts = {"failed_since": recovery.failed_since, "recovered_at": recovery.recovered_at}
        happenings.append(Operational(WEBHOOK_RECOVERED, webhook.pk, {**_about(webhook), **facts}))
        signal = partial(
            webhook_recovered.send_robust, Webhook, webhook_id=webhook.pk, failed_since=recovery.failed_since
        )
        transaction.on_commit(signal, using=using)
        at, since = recovery.recovered_at, recovery.failed_since
        announcements.append(announcement(Kind.RECOVERED, at, since=since, webhook=webhook, given_up=recovery.given_up))
    announce(using, announcements)
    emit_operational(using, happenings)


def notify_recovery_ended(webhook: Webhook, episode: Episode, *, recovered: int, given_up: int) -> None:
    """Report what an automatic recovery has achieved, in the transaction that ends it."""
    facts = {"failed_since": episode.began_at, "recovered": recovered, "given_up": given_up}
    emit_operational(_database(webhook), [Operational(RECOVERY_ENDED, webhook.pk, {**_about(webhook), **facts})])


def notify_disabled(webhook: Webhook, health: WebhookHealth, now: datetime) -> None:
    """Announce that a webhook is disabled for failing. Signal and event are sent whenever a webhook is disabled."""
    made = announcement(Kind.DISABLED, now, since=begin_of(health), webhook=webhook, given_up=health.given_up_count)
    announce(_database(webhook), [made])


def announcement(kind: str, at: datetime, *, since: datetime, webhook: Webhook, **facts: Any) -> Announcement:
    """Return the unsaved announcement of something that happened to a webhook."""
    pk = new_id("ann", at)
    return Announcement(pk=pk, webhook=webhook, kind=kind, since=since, facts=facts, created_at=at, due_at=at)


def announce(using: str, announcements: Sequence[Announcement]) -> None:
    """Insert announcements in the caller's transaction."""
    if announcements:
        Announcement.objects.using(using).announce(announcements)


def begin_of(health: WebhookHealth) -> datetime:
    """Return the start of a failure."""
    since = health.failing_since or health.given_up_since
    assert since is not None
    return since


def cause_of(health: WebhookHealth) -> Cause | None:
    """Return the commonest cause of the requests that failed since the last success, or None if none is known."""
    if health.cause.isdecimal():
        return Cause(DeliveryAttempt.Result.HTTP_STATUS, int(health.cause))
    return Cause(health.cause) if health.cause else None


def waiting_for(using: str, webhook_id: str) -> int:
    """Return the number of events that wait to be sent to a webhook, at most ``MOST_COUNTED``."""
    entries = QueueEntry.objects.using(using).filter(webhook=webhook_id, kind=DeliveryKind.EVENT).order_by()
    return int(entries[:MOST_COUNTED].count())


def _shown(facts: dict[str, Any], webhook: Webhook) -> dict[str, Any]:
    """Return the facts as JSON that the owner may see."""
    shown = {name: format_time(value) if isinstance(value, datetime) else value for name, value in facts.items()}
    if masks(facts["result"], is_handshake=False, status=webhook.status):
        shown |= {"result": UNREACHABLE, "status_code": None}
    return shown


def emit_disabled(sender: type[models.Model], webhook: Webhook, **kwargs: Any) -> None:
    """Emit the operational event (signal handler for ``webhook_being_disabled``)."""
    facts = {**_reason(webhook), "disabled_at": webhook.status_changed_at}
    happening = Operational(WEBHOOK_DISABLED, webhook.pk, {**_about(webhook), **facts})
    emit_operational(_database(webhook), [happening])


def emit_given_up(using: str, delivery_ids: Sequence[str]) -> None:
    """Emit an event for each given-up delivery, except of operational events, if a webhook is subscribed."""
    if not delivery_ids or not webhooks_for(RoutedEvent(type=DELIVERY_GIVEN_UP.name), using).exists():
        return
    rows = Delivery.objects.using(using).select_related("event", "webhook").defer("event__body").order_by("pk")
    for first in range(0, len(delivery_ids), NOTIFIED_AT_A_TIME):
        some = rows.filter(pk__in=delivery_ids[first : first + NOTIFIED_AT_A_TIME])
        emit_operational(using, list(_given_up(some.readable())))


def _given_up(deliveries: Sequence[Delivery]) -> Iterator[Operational]:
    for delivery in deliveries:
        if delivery.event is None or delivery.event.type in OPERATIONAL_NAMES:
            continue
        data = {
            "delivery_id": delivery.pk,
            "event_id": delivery.event.pk,
            "event_type": delivery.event.type,
            "attempts": delivery.attempt_count,
            "last_result": delivery.last_result,
        }
        yield Operational(DELIVERY_GIVEN_UP, delivery.webhook_id, {**_about(delivery.webhook), **data})


def _about(webhook: Webhook) -> dict[str, Any]:
    """Return the common data of all operational events about a webhook."""
    about = {"webhook_id": webhook.pk, "url": webhook.url}
    return about if webhook.owner_id is None else {**about, "owner": str(webhook.owner_id)}


def _reason(webhook: Webhook) -> dict[str, str]:
    return {"reason": webhook.status_reason, "reason_code": code_of(webhook.status_reason)}


def _database(webhook: Webhook) -> str:
    return webhook.alias
