"""Sentences about the health of a webhook: what its receiver does now, and why. ``outlook`` says what happens next."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta

from django.utils import timezone
from django.utils.html import format_html, strip_tags
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext

from ..maintenance.rollups.reading import Window
from ..maintenance.rollups.recent import MISSED
from ..models import AuditEntry, Delivery, DeliveryAttempt, Webhook, WebhookHealth
from ..models.audit import Action
from ..models.health import Thresholds
from ..models.standing import Health, Standing
from ..models.webhook import Order
from .display import cause_in_words, in_time, moment
from .outlook import disables_at, recovery_in_words, what_waits, when_disabled

NO_TIME = timedelta(0)

MAX_LATEST = 10
"""Lost deliveries among which a page looks for what they have in common."""


def last_at(health: WebhookHealth) -> datetime | None:
    """Return the time of the last request whose result is known. Successes are recorded to the minute."""
    times = (health.last_success_at, health.last_given_up_at, health.refused_at)
    return max((at for at in times if at is not None), default=None)


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
    if rest <= NO_TIME:
        return moment(at, gettext("about to be disabled"))
    return moment(at, gettext("disabled in %(time)s") % {"time": in_time(rest)})


STOPS = {Standing.PAUSED: Action.WEBHOOK_PAUSED, Standing.DISABLED: Action.WEBHOOK_DISABLED}


def stop_of(webhook: Webhook, standing: Standing) -> AuditEntry | None:
    """Return the audit entry of the pause or the disabling of the webhook; None without one."""
    is_paused = webhook.paused_at is not None and standing is not Standing.DISABLED
    action = STOPS.get(Standing.PAUSED if is_paused else standing)
    if action is None:
        return None
    entries = AuditEntry.objects.using(webhook.alias).about(webhook).filter(action=action)
    return entries.order_by("-pk").first()


def as_text(sentence: SafeString | str) -> str:
    """Return a sentence without its markup."""
    return html.unescape(strip_tags(sentence)) if isinstance(sentence, SafeString) else str(sentence)


def in_short(webhook: Webhook, judged: Health) -> SafeString | str:
    """Return one sentence about the state of a webhook, for lists. It reads nothing but the webhook's health."""
    return next(_facts(webhook, judged), "")


def sentences(
    webhook: Webhook,
    judged: Health,
    stop: AuditEntry | None = None,
    name_of: Callable[[AuditEntry], str] = lambda entry: "",
    limit: str | None = None,
) -> list[SafeString | str]:
    """Return sentences about the state of a webhook, and what happens next, for its page.

    ``stop`` is from ``stop_of``, and ``name_of`` returns the name of an actor for the reader, or "". ``limit`` is the
    setting that holds back events, "" for the order; by default any that can.
    """
    health = WebhookHealth.of(webhook) or WebhookHealth(webhook=webhook)
    said = [] if judged.standing is Standing.PAUSED else list(_facts(webhook, judged, limit))
    said += _stopped(webhook, stop, name_of)
    if judged.standing is Standing.PARTLY_FAILING:
        said += _in_common(webhook)
    said += what_waits(judged)
    said += recovery_in_words(judged)
    if health.given_up_since is not None:
        if judged.failed_requests or judged.standing is not Standing.FAILING:
            said.append(_given_up(health))
        if health.warned_at is not None:
            said.append(format_html(gettext("Account notified: {time}."), time=moment(health.warned_at)))
        said.append(when_disabled(webhook, health))
    return said


def _stopped(
    webhook: Webhook, stop: AuditEntry | None, name_of: Callable[[AuditEntry], str]
) -> Iterator[SafeString | str]:
    """Yield since when the webhook is paused or disabled, and by whom."""
    if stop is not None:
        is_pause = stop.action == Action.WEBHOOK_PAUSED
        text = gettext("Paused since {since} ({by}).") if is_pause else gettext("Disabled since {since} ({by}).")
        by = ", ".join(filter(None, [name_of(stop), stop.get_via_display()]))
        yield format_html(text, since=moment(stop.created_at), by=by)
    elif webhook.paused_at is not None:
        yield _paused_since(webhook.paused_at)


def _paused_since(at: datetime) -> SafeString:
    return format_html(gettext("Paused since {since}."), since=moment(at))


def _facts(webhook: Webhook, judged: Health, limit: str | None = None) -> Iterator[SafeString | str]:
    """Yield the facts that led to the state, from the webhook and its health alone."""
    health = WebhookHealth.of(webhook) or WebhookHealth(webhook=webhook)
    if judged.standing in (Standing.FAILING, Standing.RETRYING):
        yield _why_failing(health, judged)
    elif judged.standing is Standing.PARTLY_FAILING:
        yield from _partly(health)
    elif judged.standing is Standing.SLOW:
        yield _slow(health)
    elif judged.standing is Standing.DELAYED and judged.since:
        text = gettext("Delivery is delayed. An event has been due since {time}; nothing is lost.")
        yield format_html(text, time=moment(judged.since))
    elif judged.standing is Standing.HELD_BACK and judged.since:
        why_held = _why_held(limit_of(webhook) if limit is None else limit)
        yield format_html(why_held, time=moment(judged.since), limit=webhook.max_in_flight or 1)
    elif judged.standing is Standing.PAUSED and judged.since:
        yield _paused_since(judged.since)
    elif judged.standing is Standing.HEALTHY and (at := last_at(health)):
        yield format_html(gettext("Last delivery: {time}."), time=moment(at))
    elif judged.standing is Standing.UNVERIFIED:
        yield gettext("Events are sent to it once its URL has returned a challenge.")
    elif judged.standing is Standing.UNUSED:
        yield gettext("Nothing has been sent to it yet, except tests and verifications.")


def _why_failing(health: WebhookHealth, judged: Health) -> SafeString | str:
    if judged.failed_requests:
        return _failed_requests(health, judged)
    if judged.standing is Standing.FAILING:
        return _given_up(health)
    return gettext("Deliveries that failed wait for their next attempt.")


def _failed_requests(health: WebhookHealth, judged: Health) -> SafeString:
    if judged.failed_requests == 1:
        text = gettext("The last request failed at {time}: {cause}.")
    elif len(health.refused) == 1:
        text = gettext("The last {number} requests failed, since {time}, all with: {cause}.")
    else:
        text = gettext("The last {number} requests failed, since {time}, most with: {cause}.")
    since = health.refused_since or health.failing_since
    cause = cause_in_words(judged.cause)
    return format_html(text, number=judged.failed_requests, time=moment(since) if since else "", cause=cause)


def _given_up(health: WebhookHealth) -> SafeString:
    number, since = health.given_up_count, health.given_up_since or health.failing_since
    text = ngettext("{number} event was given up since {time}.", "{number} events were given up since {time}.", number)
    return format_html(text, number=number, time=moment(since) if since else "")


def _partly(health: WebhookHealth) -> Iterator[str]:
    hour, day = (health.recent.get(window.value, {}) for window in (Window.HOUR, Window.DAY))
    if day.get("given_up"):
        text = gettext("%(given_up)d of %(finished)d events of the last 24 hours were given up.")
        yield text % {"given_up": day["given_up"], "finished": day["finished"]}
    if Thresholds.configured().are_many_failed(hour.get("failed", 0), hour.get("requests", 0)):
        text = gettext("%(failed)d of %(requests)d requests of the last hour failed.")
        yield text % {"failed": hour["failed"], "requests": hour["requests"]}
    if number := health.recent.get(MISSED):
        yield ngettext("%(number)d event is still missed.", "%(number)d events are still missed.", number) % {
            "number": number
        }


def _in_common(webhook: Webhook) -> Iterator[str]:
    """Yield what the latest lost deliveries have in common: the cause, as the owner may see it, and the event type."""
    deliveries = Delivery.objects.using(webhook.alias).filter(webhook=webhook, kind=Delivery.Kind.EVENT).for_owner()
    lost = deliveries.in_state(Delivery.State.GIVEN_UP).select_related("event", "webhook").defer("event__body")
    latest = list(lost.order_by("-pk")[:MAX_LATEST])
    if len(latest) < 2:
        return
    causes = _causes(latest)
    types = {delivery.event.type for delivery in latest if delivery.event}
    cause = cause_in_words(causes.pop()) if len(causes) == 1 and "" not in causes else ""
    event_type = types.pop() if len(types) == 1 else ""
    if cause and event_type:
        text = gettext("The latest of them are all of the type %(type)s, and all failed with: %(cause)s.")
        yield text % {"type": event_type, "cause": cause}
    elif cause:
        yield gettext("The latest of them all failed with: %(cause)s.") % {"cause": cause}
    elif event_type:
        yield gettext("The latest of them are all of the type %(type)s.") % {"type": event_type}


def _causes(deliveries: Sequence[Delivery]) -> set[str]:
    """Return why the last attempts failed: statuses, and other results."""
    attempts = DeliveryAttempt.objects.using(deliveries[0].alias).filter(delivery__in=deliveries).order_by("number")
    statuses = dict(attempts.values_list("delivery_id", "response_status"))
    return {
        str(statuses.get(each.pk) or "") if each.last_result == DeliveryAttempt.Result.HTTP_STATUS else each.last_result
        for each in deliveries
    }


def _slow(health: WebhookHealth) -> str:
    text = gettext("1 of 20 answers of the last hour took %(time)s or longer. At most %(limit)s is recommended.")
    p95 = timedelta(milliseconds=health.recent.get(Window.HOUR.value, {}).get("p95", 0))
    limit = timedelta(seconds=Thresholds.configured().slow_seconds)
    return text % {"time": in_time(p95), "limit": in_time(limit)}


def limit_of(webhook: Webhook) -> str:
    """Return the setting that can hold back events of a webhook; "" without one.

    In the order of the webhook at most one request is in flight, so only the rate limit can.
    """
    names = ("rate_limit",) if webhook.order == Order.WEBHOOK else ("rate_limit", "max_in_flight")
    return next((name for name in names if getattr(webhook, name) is not None), "")


def _why_held(limit: str) -> str:
    if limit == "rate_limit":
        return gettext("Its rate limit holds back events: the oldest has been due since {time}.")
    if limit:
        return gettext(
            "Its limit of {limit} requests at a time holds back events: the oldest has been due since {time}."
        )
    return gettext("Its order holds back events: the oldest has been due since {time}.")
