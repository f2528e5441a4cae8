"""Telling of a webhook that fails, recovers or is disabled: by operational event, by signal and by mail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from django.db import models, transaction

from ...emission import Operational, emit_operational
from ...event_types import (
    DELIVERY_GIVEN_UP,
    OPERATIONAL_EVENT_TYPES,
    WEBHOOK_DISABLED,
    WEBHOOK_FAILING,
    WEBHOOK_RECOVERED,
)
from ...models import Delivery, Webhook, WebhookHealth
from ...routing import RoutedEvent, webhooks_for
from ...signals import webhook_failing, webhook_recovered
from .mail import mail_owner
from .policy import Rule
from .state import Recovery

AT_A_TIME = 500
OUR_NAMES = frozenset(event_type.name for event_type in OPERATIONAL_EVENT_TYPES)


def notify_failing(webhook: Webhook, health: WebhookHealth, rule: Rule) -> None:
    """Warn of a webhook, in the transaction that remembers it."""
    facts = {"failing_since": health.failing_since, "given_up": health.given_up_count}
    disables_at = rule.disables_at(health)
    data = facts if disables_at is None else {**facts, "disables_at": disables_at}
    using = _database(webhook)
    emit_operational(using, [Operational(WEBHOOK_FAILING, webhook.pk, {**_about(webhook), **data})])
    facts["disables_at"] = disables_at
    signal = partial(webhook_failing.send_robust, Webhook, webhook_id=webhook.pk, **facts)
    transaction.on_commit(signal, using=using)
    mail_owner("failing", webhook, using=using, **facts)


def notify_recovered(using: str, recoveries: Sequence[Recovery]) -> None:
    """Tell of the webhooks that work again and are not stopped, in the transaction that forgets that they failed."""
    ids = [recovery.webhook_id for recovery in recoveries]
    webhooks = Webhook.objects.using(using).active().select_related("owner").in_bulk(ids) if ids else {}
    told = [(webhooks[each.webhook_id], each) for each in recoveries if each.webhook_id in webhooks]
    happenings = []
    for webhook, recovery in told:
        facts = {"failed_since": recovery.failed_since, "recovered_at": recovery.recovered_at}
        happenings.append(Operational(WEBHOOK_RECOVERED, webhook.pk, {**_about(webhook), **facts}))
        signal = partial(
            webhook_recovered.send_robust, Webhook, webhook_id=webhook.pk, failed_since=recovery.failed_since
        )
        transaction.on_commit(signal, using=using)
        mail_owner("recovered", webhook, using=using, **facts)
    emit_operational(using, happenings)


def notify_disabled(webhook: Webhook, health: WebhookHealth) -> None:
    """Mail that a webhook was disabled for failing; the signal and the event come of every disabling."""
    facts = {"failing_since": health.failing_since, "given_up": health.given_up_count}
    mail_owner("disabled", webhook, using=_database(webhook), reason=webhook.status_reason, **facts)


def emit_disabled(sender: type[models.Model], webhook: Webhook, **kwargs: Any) -> None:
    """Signal handler of ``webhook_being_disabled``."""
    facts = {"reason": webhook.status_reason, "disabled_at": webhook.status_changed_at}
    happening = Operational(WEBHOOK_DISABLED, webhook.pk, {**_about(webhook), **facts})
    emit_operational(_database(webhook), [happening])


def emit_given_up(using: str, delivery_ids: Sequence[str]) -> None:
    """Tell of deliveries that were given up, where a webhook listens; those of operational events end there."""
    if not delivery_ids or not webhooks_for(RoutedEvent(type=DELIVERY_GIVEN_UP.name), using).exists():
        return
    rows = Delivery.objects.using(using).select_related("event", "webhook").defer("event__body").order_by("pk")
    for first in range(0, len(delivery_ids), AT_A_TIME):
        some = rows.filter(pk__in=delivery_ids[first : first + AT_A_TIME])
        emit_operational(using, list(_given_up(some)))


def _given_up(deliveries: models.QuerySet[Delivery]) -> Iterator[Operational]:
    for delivery in deliveries:
        if delivery.event is None or delivery.event.type in OUR_NAMES:
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
    """Return what each operational event says of its webhook."""
    about = {"webhook_id": webhook.pk, "url": webhook.url}
    return about if webhook.owner_id is None else {**about, "owner": str(webhook.owner_id)}


def _database(webhook: Webhook) -> str:
    return webhook.alias
