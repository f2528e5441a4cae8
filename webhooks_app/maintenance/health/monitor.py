"""Evaluation of failing webhooks, and updates of their health from tallies."""

from __future__ import annotations

import logging
from datetime import datetime
from functools import partial

from django.db import InterfaceError, OperationalError, transaction

from ...database.sql import writing
from ...models import Tally, Webhook, WebhookHealth
from ...models.audit import SYSTEM, acting
from ...reasons import ReasonText
from ..problems import note_results
from ..rollups.folding import Folded, read
from . import Rule, Verdict, has_success, update_states
from .notifications import emit_given_up, notify_disabled, notify_failing, notify_recovered

logger = logging.getLogger("webhooks_app.health")


def take_in(using: str, folded: Folded) -> None:
    """Update health and problems from folded tallies, in the fold's transaction. Report recoveries and deliveries
    that were given up.
    """
    note_results(using, folded.webhooks)
    notify_recovered(using, update_states(using, folded.webhooks))
    emit_given_up(using, folded.given_up)


def watch(using: str, now: datetime) -> None:
    """Warn about webhooks that have been failing for half of the time limit, and disable those that exceed it.

    ``now`` is the database's time. An exception for one webhook is raised after the evaluation of the others.
    """
    rule = Rule.configured()
    problem: Exception | None = None
    failing = WebhookHealth.objects.using(using).filter(failing_since__lte=now - rule.warns_after)
    failing = failing.filter(webhook__in=Webhook.objects.using(using).active()).select_related("webhook")
    for health in failing.order_by("failing_since").readable():
        try:
            if rule.verdict(health, now) is Verdict.NONE:
                continue
            _judge(using, health.webhook_id, rule, now)
        except (OperationalError, InterfaceError):
            raise
        except Exception as error:  # A signal handler of the host must not affect other webhooks.
            webhook_id = health.webhook_id
            logger.exception("Webhook %s could not be evaluated.", webhook_id, extra={"webhook_id": webhook_id})
            problem = problem or error
    if problem is not None:
        raise problem


def _judge(using: str, webhook_id: str, rule: Rule, now: datetime) -> None:
    """Apply the rule to the current state of a webhook, which is locked against changes and folds."""
    with writing(using, Webhook):
        webhooks = Webhook.objects.using(using).active().order_by()
        webhook = webhooks.select_for_update().filter(pk=webhook_id).first()
        health = WebhookHealth.objects.using(using).select_for_update().filter(pk=webhook_id).first()
        if webhook is None or health is None:
            return
        health.webhook = webhook
        if webhook.paused_at is not None:
            # Deliveries cannot succeed during a pause. Only later results may count.
            WebhookHealth.objects.using(using).clear(webhook)
            return
        verdict = rule.verdict(health, now)
        if verdict is not Verdict.NONE:
            _act(verdict, webhook, health, rule, now)
            # Checked last, because a success may be recorded meanwhile.
            if _has_unfolded_success(using, webhook_id):
                transaction.set_rollback(True, using=using)


def _act(verdict: Verdict, webhook: Webhook, health: WebhookHealth, rule: Rule, now: datetime) -> None:
    if health.warned_at is None:
        _warn(webhook, health, rule, now)
    if verdict is Verdict.DISABLE:
        _disable(webhook, health, rule)


def _has_unfolded_success(using: str, webhook_id: str) -> bool:
    """Return True if a success is recorded but not yet folded.

    Folding it requires the lock on the health, so its tally still exists.
    """
    tallies = Tally.objects.using(using).filter(counts__contains=webhook_id.removeprefix("wh_"))
    return any(has_success(entry) for tally in tallies for entry in read(tally)[0] if entry.webhook_id == webhook_id)


def _warn(webhook: Webhook, health: WebhookHealth, rule: Rule, now: datetime) -> None:
    health.warned_at = now
    health.save(update_fields=["warned_at"])
    notify_failing(webhook, health, rule)
    _log(health, "Webhook %s has been failing since %s.", webhook.pk, health.failing_since)


def _disable(webhook: Webhook, health: WebhookHealth, rule: Rule) -> None:
    with acting(SYSTEM):
        webhook.disable(_reason(health, rule))
    notify_disabled(webhook, health)
    _log(health, "Webhook %s is disabled: %s", webhook.pk, webhook.status_reason)


def _log(health: WebhookHealth, text: str, *args: object) -> None:
    """Log a warning after the commit."""
    attributes = {"webhook_id": health.webhook_id, "given_up": health.given_up_count}
    transaction.on_commit(partial(logger.warning, text, *args, extra=attributes), using=health.alias)


def _reason(health: WebhookHealth, rule: Rule) -> ReasonText:
    days, since = rule.after.total_seconds() / 86_400, f"{health.failing_since:%Y-%m-%d %H:%M}"
    return ReasonText("all_given_up", days=days, number=str(health.given_up_count), since=since)
