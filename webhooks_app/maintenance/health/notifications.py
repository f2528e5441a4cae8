"""Notifications about failing, recovered and disabled webhooks: operational events, signals and emails."""

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
    """Warn about a webhook, in the transaction that records the warning."""
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
    """Report the recovered webhooks that are active, in the transaction that ends their failing periods."""
    ids = [recovery.webhook_id for recovery in recoveries]
    webhooks = Webhook.objects.using(using).active().select_related("owner").in_bulk(ids) if ids else {}
    recovered = [(webhooks[each.webhook_id], each) for each in recoveries if each.webhook_id in webhooks]
    happenings = []
    for webhook, recovery in recovered:
        facts = {"failed_since": recovery.failed_since, "recovered_at": recovery.recovered_at}
        happenings.append(Operational(WEBHOOK_RECOVERED, webhook.pk, {**_about(webhook), **facts}))
        signal = partial(
            webhook_recovered.send_robust, Webhook, webhook_id=webhook.pk, failed_since=recovery.failed_since
        )
        transaction.on_commit(signal, using=using)
        mail_owner("recovered", webhook, using=using, **facts)
    emit_operational(using, happenings)


def notify_disabled(webhook: Webhook, health: WebhookHealth) -> None:
    """Send an email about a webhook disabled for failing. Signal and event are sent whenever a webhook is disabled."""
    facts = {"failing_since": health.failing_since, "given_up": health.given_up_count}
    mail_owner("disabled", webhook, using=_database(webhook), reason=webhook.status_reason, **facts)


def emit_disabled(sender: type[models.Model], webhook: Webhook, **kwargs: Any) -> None:
    """Emit the operational event (signal handler for ``webhook_being_disabled``)."""
    facts = {"reason": webhook.status_reason, "disabled_at": webhook.status_changed_at}
    happening = Operational(WEBHOOK_DISABLED, webhook.pk, {**_about(webhook), **facts})
    emit_operational(_database(webhook), [happening])


def emit_given_up(using: str, delivery_ids: Sequence[str]) -> None:
    """Emit an event for each given-up delivery, except of operational events, if a webhook is subscribed."""
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
    """Return the common data of all operational events about a webhook."""
    about = {"webhook_id": webhook.pk, "url": webhook.url}
    return about if webhook.owner_id is None else {**about, "owner": str(webhook.owner_id)}


def _database(webhook: Webhook) -> str:
    return webhook.alias
