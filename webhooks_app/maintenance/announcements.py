"""What owners are told about, and when: failures that last, and what has waited for a person for too long.

Each rule is a query with a time, and each finding is announced once, because the row of an announcement is unique.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.db import InterfaceError, OperationalError
from django.db.models import Exists, F, OuterRef, QuerySet

from ..conf import settings
from ..database.clock import now as clock_now
from ..database.sql import writing
from ..models import Announcement, ApiKey, QueueEntry, Webhook, WebhookHealth
from ..models.disclosure import UNREACHABLE_MESSAGES
from ..models.health import stopped_since
from ..protocol.ids import new_id
from .health import Rule
from .notifications import Kind, announce, announcement, notify_failing, waiting_for

logger = logging.getLogger("webhooks_app.health")

AT_A_TIME = 200
"""Number of webhooks or keys for which one run makes announcements of one kind."""

ANNOUNCING_SECONDS = 0.2
"""Maximum duration of announcing failures in one run, so that the other jobs can run."""

UNVERIFIED_AFTER, PAUSED_AFTER = timedelta(days=1), timedelta(days=7)

STAGES = {Kind.KEY_EXPIRES: timedelta(days=14), Kind.KEY_EXPIRES_SOON: timedelta(days=3)}
"""How long before its end the expiry of an API key is announced. A later stage replaces an earlier one."""

FOUND_WITHIN = timedelta(days=7)
"""How long after its time a failed or missing verification is still announced, for example after an outage of all
workers. Without a limit, each run would read all webhooks that were ever refused."""

KEPT = timedelta(days=30)
"""How long a settled announcement is kept, longer than any of the rules can find its reason again."""

HIDDEN_STEP = timedelta(minutes=10)
"""Longer than a verification takes under the default retry policy."""


def announces_after() -> timedelta:
    """Return for how long a webhook must have been failing to be announced."""
    return timedelta(minutes=settings.FAILING_NOTICE_MINUTES)


def announce_failing(using: str, now: datetime) -> bool:
    """Announce webhooks that have been failing for some time, once an episode. Return True if there may be more.

    ``now`` is the database's time. An exception for one webhook is raised after the announcement of the others.
    """
    began, rule, problem = time.monotonic(), Rule.configured(), None
    failing_now = WebhookHealth.objects.using(using).failing(now)
    unannounced = failing_now.filter(announced_at=None, failing_since__lte=now - announces_after())
    running = Webhook.objects.using(using).active().filter(paused_at=None)
    failing = unannounced.filter(webhook__in=running).order_by("failing_since").values_list("pk", flat=True)
    ids = list(failing[:AT_A_TIME])
    for webhook_id in ids:
        try:
            _announce_failing(using, webhook_id, rule, now)
        except (OperationalError, InterfaceError):
            raise
        except Exception as error:  # A damaged row must not affect other webhooks.
            logger.exception("Webhook %s could not be announced.", webhook_id, extra={"webhook_id": webhook_id})
            problem = problem or error
        if time.monotonic() - began > ANNOUNCING_SECONDS:
            return True
    if problem is not None:
        raise problem
    return len(ids) == AT_A_TIME


def _announce_failing(using: str, webhook_id: str, rule: Rule, now: datetime) -> None:
    """Announce a webhook by its current state, which is locked against changes and folds."""
    with writing(using, Webhook):
        webhooks = Webhook.objects.using(using).active().order_by().filter(paused_at=None)
        webhook = webhooks.select_for_update().filter(pk=webhook_id).first()
        health = WebhookHealth.objects.using(using).select_for_update().filter(pk=webhook_id).first()
        if webhook is None or health is None or not is_announced_now(health, now):
            return
        health.webhook = webhook
        health.announced_at = now
        health.save(update_fields=["announced_at"])
        notify_failing(webhook, health, rule, now, is_warning=False)


def is_announced_now(health: WebhookHealth, now: datetime) -> bool:
    """Return True if the failure of a running webhook is due to be announced."""
    if health.failing_since is None or health.announced_at is not None or not health.is_failing(now):
        return False
    return now - health.failing_since >= announces_after()


def announce_stopped(using: str, now: datetime) -> bool:
    """Announce verifications that failed or do not end, and long pauses. Return True if there may be more."""
    found = [*_failed(using, now), *_unverified(using, now), *_paused(using, now)]
    announce(using, found)
    return len(found) >= AT_A_TIME


def _failed(using: str, now: datetime) -> Iterator[Announcement]:
    rows = Webhook.objects.using(using).existing().filter(status=Webhook.Status.FAILED)
    rows = rows.filter(status_changed_at__gt=now - FOUND_WITHIN, status_changed_at__lte=now)
    for webhook in _without(rows, Kind.VERIFICATION_FAILED, "webhook", "status_changed_at"):
        is_masked = webhook.status_reason in UNREACHABLE_MESSAGES
        at = hidden_end(stopped_since(webhook), now) if is_masked else now
        yield announcement(Kind.VERIFICATION_FAILED, at, since=webhook.status_changed_at, webhook=webhook)


def announce_refused_url(sender: Any, webhook_id: str, reason: str, **kwargs: Any) -> None:
    """Announce that a new URL failed its verification (signal handler for ``webhook_url_refused``)."""
    moment = at = clock_now()
    webhook = Webhook.objects.get(pk=webhook_id)
    if reason in UNREACHABLE_MESSAGES:
        handshakes = webhook.deliveries.handshakes().order_by("-pk")
        began_at = handshakes.values_list("created_at", flat=True).first()
        at = hidden_end(began_at or moment, moment)
    announce(webhook.alias, [announcement(Kind.URL_REFUSED, at, since=moment, webhook=webhook)])


def hidden_end(began_at: datetime, now: datetime) -> datetime:
    """Return a time for telling an owner that does not reveal how long an unreachable URL took.

    It is a multiple of ten minutes after the beginning, and not before ``now``.
    """
    steps = max(1, -((began_at - now) // HIDDEN_STEP))
    return began_at + steps * HIDDEN_STEP


def _unverified(using: str, now: datetime) -> Iterator[Announcement]:
    rows = Webhook.objects.using(using).existing().filter(status=Webhook.Status.PENDING)
    after = now - UNVERIFIED_AFTER
    rows = rows.filter(status_changed_at__gt=after - FOUND_WITHIN, status_changed_at__lte=after)
    for webhook in _without(rows, Kind.UNVERIFIED, "webhook", "status_changed_at"):
        yield announcement(Kind.UNVERIFIED, now, since=webhook.status_changed_at, webhook=webhook)


def _paused(using: str, now: datetime) -> Iterator[Announcement]:
    rows = Webhook.objects.using(using).active().filter(paused_at__lte=now - PAUSED_AFTER)
    rows = rows.filter(Exists(QueueEntry.objects.using(using).filter(webhook=OuterRef("pk")).order_by()))
    for webhook in _without(rows, Kind.PAUSED, "webhook", "paused_at"):
        waiting = waiting_for(using, webhook.pk)
        if webhook.paused_at is not None:  # a damaged time can be read as none
            yield announcement(Kind.PAUSED, now, since=webhook.paused_at, webhook=webhook, waiting=waiting)


def announce_expiry(using: str, now: datetime) -> bool:
    """Announce that API keys will expire. Return True if there may be more."""
    found = [
        Announcement(pk=new_id("ann", now), api_key=key, kind=kind, since=key.expires_at, created_at=now, due_at=now)
        for kind in STAGES
        for key in _without(expiring(using, kind, now), kind, "api_key", "expires_at")
    ]
    announce(using, found)
    return len(found) >= AT_A_TIME


def expiring(using: str, kind: str, now: datetime) -> QuerySet[ApiKey]:
    """Return the keys that are in this stage: not those that were created for a shorter time."""
    before = STAGES[Kind(kind)]
    least = max((each for each in STAGES.values() if each < before), default=timedelta(0))
    valid = ApiKey.objects.using(using).filter(revoked_at=None, created_at__lt=F("expires_at") - before)
    return valid.filter(expires_at__gt=now + least, expires_at__lte=now + before)


def _without(rows: QuerySet[Any], kind: str, subject: str, since: str) -> list[Any]:
    """Return some of the rows for which there is no announcement yet."""
    made = Announcement.objects.using(rows.db).filter(**{subject: OuterRef("pk")}, kind=kind, since=OuterRef(since))
    missing: Any = rows.filter(~Exists(made.order_by())).order_by()[:AT_A_TIME]
    found: list[Any] = missing.readable()
    return found


def forget_announcements(using: str, now: datetime) -> None:
    """Delete a limited number of old announcements."""
    rows = Announcement.objects.using(using)
    if ids := list(rows.expired(now - KEPT).order_by("pk").values_list("pk", flat=True)[:1000]):
        rows.filter(pk__in=ids).delete()
