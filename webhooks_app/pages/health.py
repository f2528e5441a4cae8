"""Sentences about the health of a webhook, and its outlook."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext

from ..maintenance.health import Rule
from ..models import AuditEntry, Webhook, WebhookHealth
from ..models.audit import Action
from .display import in_time, moment

NOTHING = timedelta(0)


def last_at(health: WebhookHealth) -> datetime | None:
    """Return the time of the last finished delivery. Successes are recorded to the minute."""
    return max((at for at in (health.last_success_at, health.last_given_up_at) if at is not None), default=None)


def disables_at(webhook: Webhook, health: WebhookHealth) -> datetime | None:
    """Return the time when a webhook will be disabled unless a delivery succeeds; None if it will not be."""
    rule = Rule.configured()
    is_judged = webhook.status == Webhook.Status.ACTIVE and webhook.paused_at is None
    return rule.disables_at(health) if is_judged and rule.is_enough(health) else None


def failing_for(health: WebhookHealth) -> SafeString | str:
    """Return the duration of the failure."""
    since = health.failing_since
    if since is None:
        return ""
    return moment(since, gettext("for %(time)s") % {"time": in_time(timezone.now() - since)})


def disabled_in(webhook: Webhook, health: WebhookHealth) -> SafeString | str:
    """Return the remaining time until a webhook is disabled; "" if it will not be."""
    at = disables_at(webhook, health)
    if at is None:
        return ""
    rest = at - timezone.now()
    if rest <= NOTHING:
        return moment(at, gettext("about to be disabled"))
    return moment(at, gettext("disabled in %(time)s") % {"time": in_time(rest)})


def why_paused(webhook: Webhook) -> str:
    """Return the reason that a person gave for pausing the webhook; "" without one."""
    if webhook.paused_at is None:
        return ""
    pauses = AuditEntry.objects.using(webhook.alias).about(webhook).filter(action=Action.WEBHOOK_PAUSED)
    return pauses.order_by("-pk").values_list("reason", flat=True).first() or ""


def sentences(webhook: Webhook) -> list[SafeString | str]:
    """Return sentences about a webhook's health and its outlook."""
    health = WebhookHealth.of(webhook)
    at = last_at(health) if health else None
    if health is None or at is None:
        return [gettext("No finished deliveries yet.")]
    if health.failing_since is None:
        return [format_html(gettext("Last delivery: {time}."), time=moment(at))]
    failing = gettext("All deliveries since {time} were given up: {number} so far.")
    found: list[SafeString | str] = [
        format_html(failing, time=moment(health.failing_since), number=health.given_up_count),
    ]
    if health.warned_at is not None:
        found.append(format_html(gettext("Account notified: {time}."), time=moment(health.warned_at)))
    return [*found, _outlook(webhook, health)]


def _outlook(webhook: Webhook, health: WebhookHealth) -> SafeString | str:
    rule = Rule.configured()
    if webhook.status != Webhook.Status.ACTIVE:
        return gettext("No events are sent until the webhook is active.")
    if webhook.paused_at is not None:
        return gettext("Automatic disabling is suspended while the webhook is paused.")
    if not rule.disables:
        return gettext("Automatic disabling is off.")
    at = disables_at(webhook, health)
    if at is not None and at <= timezone.now():
        return gettext("Will be disabled shortly.")
    if at is not None:
        text = gettext("Will be disabled on {time} unless a delivery succeeds.")
        return format_html(text, time=moment(at))
    text = gettext(
        "Will be disabled after %(after)s without success if at least %(number)d deliveries are given up over "
        "%(span)s or more."
    )
    return text % {"after": in_time(rule.after), "number": rule.min_deliveries, "span": in_time(rule.min_span)}
