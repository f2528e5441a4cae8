"""Sentences about what happens next to a webhook: what waits for it, its recovery, and when it is disabled."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext

from ..maintenance.health import Rule
from ..models import Webhook, WebhookHealth
from ..models.standing import FAILS, MAX_WAITING, Health, Outlook, delay
from .display import in_time, moment


def disables_at(webhook: Webhook, health: WebhookHealth) -> datetime | None:
    """Return the time when a webhook will be disabled unless a delivery succeeds; None if it will not be."""
    rule = Rule.configured()
    is_judged = webhook.status == Webhook.Status.ACTIVE and webhook.paused_at is None
    return rule.disables_at(health) if is_judged and rule.is_enough(health) else None


def what_waits(judged: Health) -> Iterator[SafeString | str]:
    """Yield how many events wait, and when they are sent or given up."""
    outlook = judged.outlook or Outlook()
    number = outlook.waiting
    if not number:
        return
    shown = f"{MAX_WAITING}+" if number > MAX_WAITING else str(number)
    if judged.standing not in FAILS or outlook.next_attempt_at is None:
        yield ngettext("%(number)s event waits.", "%(number)s events wait.", number) % {"number": shown}
        return
    text = ngettext(
        "{number} event waits; the next attempt is {time}.", "{number} events wait; the next attempt is {time}.", number
    )
    yield format_html(text, number=shown, time=_when(outlook.next_attempt_at))
    if outlook.given_up_at is not None:
        given_up = gettext("If no request succeeds, the first of them is given up on {time}.")
        yield format_html(given_up, time=moment(outlook.given_up_at))


def recovery_in_words(judged: Health) -> list[SafeString | str]:
    """Return a sentence about the automatic recovery of a webhook, if one has begun."""
    if judged.recovery_held_by == "webhook":
        return [gettext("Its automatic recovery is held back until events are sent to it again.")]
    if judged.recovery_held_by:
        return [gettext("Its automatic recovery is held back: the replay of the missed events is paused or stopped.")]
    if judged.next_recovery_at is not None:
        text = gettext("The next recovery attempt, with the oldest missed event, is {time}.")
        return [format_html(text, time=_when(judged.next_recovery_at))]
    return []


def _when(at: datetime) -> SafeString:
    rest = at - timezone.now()
    if rest > timedelta(0):
        return moment(at, gettext("in %(time)s") % {"time": in_time(rest)})
    return moment(at, gettext("delayed") if rest <= -delay() else gettext("now"))


def when_disabled(webhook: Webhook, health: WebhookHealth) -> SafeString | str:
    """Return when a webhook without successes will be disabled, or why it will not be."""
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
        "Will be disabled once nothing has arrived for %(after)s and %(number)d deliveries or more were given up over "
        "%(span)s or more."
    )
    return text % {"after": in_time(rule.after), "number": rule.min_deliveries, "span": in_time(rule.min_span)}
