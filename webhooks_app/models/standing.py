"""The judgement of a webhook by its requests: its standing now, for pages, the API, mails and metrics.

``judged`` is the rule, a pure function. ``conditions`` is the same rule as conditions in SQL, for lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import models
from django.db.models import Exists, OuterRef, Q, Subquery
from django.db.models.lookups import IsNull
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from ..conf import policy_of_delivery
from ..database.sql import having_ids
from .delivery import Delivery
from .disclosure import UNREACHABLE, masks
from .episode import Episode
from .health import Thresholds, Trouble, WebhookHealth, is_failing
from .maintenance import WorkerProcess
from .order import OrderedEntries
from .queue_entry import QueueEntry
from .webhook import Order, Webhook

EVENT = Delivery.Kind.EVENT


class Standing(models.TextChoices):
    """The state of a webhook and what its receiver does, in one word. The first that applies is the gravest."""

    FAILING = "failing", _("Failing")
    VERIFICATION_FAILED = "verification_failed", _("Verification failed")
    DISABLED = "disabled", _("Disabled")
    PARTLY_FAILING = "partly_failing", _("Partly failing")
    RETRYING = "retrying", _("Retrying")
    SLOW = "slow", _("Slow")
    DELAYED = "delayed", _("Delayed")
    HELD_BACK = "held_back", _("Held back")
    PAUSED = "paused", _("Paused")
    UNVERIFIED = "unverified", _("Not verified yet")
    UNUSED = "unused", _("No requests yet")
    HEALTHY = "healthy", _("Healthy")

    @property
    def tone(self) -> str:
        """``good``, ``late`` or ``bad`` for the colour of the word, or ``open`` for none."""
        if self in (self.FAILING, self.VERIFICATION_FAILED, self.DISABLED):
            return "bad"
        return {self.HEALTHY: "good", self.UNUSED: "open"}.get(self, "late")

    @property
    def began_with_status(self) -> bool:
        """True if it has lasted since the last change of the status."""
        return self in (self.VERIFICATION_FAILED, self.DISABLED, self.UNVERIFIED, self.UNUSED, self.HEALTHY)


FAILS = (Standing.FAILING, Standing.PARTLY_FAILING, Standing.RETRYING)
"""The states with failed requests, in which events wait for their retries."""

STOPPED = {
    Webhook.Status.DISABLED: Standing.DISABLED,
    Webhook.Status.FAILED: Standing.VERIFICATION_FAILED,
    Webhook.Status.PENDING: Standing.UNVERIFIED,
}


WAITING = (*FAILS, Standing.DELAYED, Standing.HELD_BACK, Standing.PAUSED, Standing.UNVERIFIED)
"""The states in which events wait for the receiver, its owner or a worker."""

MAX_WAITING = 1000
"""The most waiting events that are counted."""


class Waiting(NamedTuple):
    """What the queue has for a webhook, from two entries of an index."""

    oldest_due_at: datetime | None = None
    """The due time of the event that has been due for the longest, or None if none is due."""
    next_retry_at: datetime | None = None
    """The time of the next retry, or None if none is scheduled."""
    has_workers: bool = True
    """Whether any worker process runs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outlook:
    """The events that wait for a webhook, and what will become of them."""

    waiting: int = 0
    """At most ``MAX_WAITING`` and one more."""
    next_attempt_at: datetime | None = None
    given_up_at: datetime | None = None
    """When the first of them is given up at the earliest, if no request succeeds; None if none has failed yet."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    """The judgement of a webhook with the facts behind it."""

    standing: Standing
    since: datetime | None = None
    """Start of the failure, of the pause or of the delay. None for states that began with the status."""
    failed_requests: int = 0
    """Requests that failed since the last success."""
    cause: str = ""
    """The commonest cause of these: a status as text, or the result of an attempt, masked as those of attempts are; ""
    without a failed request."""
    given_up: int = 0
    """Deliveries given up since the last success."""
    next_attempt_at: datetime | None = None
    """The time of the next retry, if one is scheduled."""
    outlook: Outlook | None = None
    """What waits, if the state makes events wait; None in lists, which do not count it."""
    next_recovery_at: datetime | None = None
    """The time of the next recovery attempt of a failing webhook with automatic recovery; None while events wait."""
    recovery_held_by: str = ""
    """What holds back an automatic recovery: ``webhook`` if it is stopped or paused, ``replay`` if that is halted."""


def judged(
    webhook: Webhook,
    health: WebhookHealth | None,
    waiting: Waiting,
    now: datetime,
    *,
    episode: Episode | None = None,
    is_halted: bool = False,
) -> Health:
    """Return the judgement of a webhook. ``health`` is None before its first result.

    ``episode`` is its automatic recovery, if one has begun, and ``is_halted`` tells whether the replay of it is.
    """
    health = health or WebhookHealth(webhook=webhook)
    standing = _standing(webhook, health, waiting, now)
    since = {
        Standing.FAILING: health.failing_since,
        Standing.RETRYING: health.refused_since,
        Standing.DELAYED: waiting.oldest_due_at,
        Standing.HELD_BACK: waiting.oldest_due_at,
        Standing.PAUSED: webhook.paused_at,
    }
    return Health(
        standing=standing,
        since=since.get(standing),
        failed_requests=health.refused_count,
        cause=UNREACHABLE if masks(health.cause, is_handshake=False, status=webhook.status) else health.cause,
        given_up=health.given_up_count,
        next_attempt_at=waiting.next_retry_at,
        **_recovery(webhook, waiting, episode, is_halted=is_halted),
    )


def _recovery(webhook: Webhook, waiting: Waiting, episode: Episode | None, *, is_halted: bool) -> dict[str, Any]:
    if episode is None:
        return {}
    if webhook.status != Webhook.Status.ACTIVE or webhook.paused_at is not None:
        return {"recovery_held_by": "webhook"}
    if is_halted:
        return {"recovery_held_by": "replay"}
    is_busy = waiting.oldest_due_at is not None or waiting.next_retry_at is not None  # these are attempts as well
    return {} if is_busy else {"next_recovery_at": episode.attempt_due_at}


def _standing(webhook: Webhook, health: WebhookHealth, waiting: Waiting, now: datetime) -> Standing:
    if webhook.status in STOPPED:
        return STOPPED[Webhook.Status(webhook.status)]
    if webhook.paused_at is not None:
        return Standing.PAUSED
    if health.is_failing(now):
        return Standing.FAILING
    if health.trouble == Trouble.PARTLY:
        return Standing.PARTLY_FAILING
    if waiting.next_retry_at is not None or health.failing_since is not None:
        return Standing.RETRYING
    if health.trouble == Trouble.SLOW:
        return Standing.SLOW
    if waiting.oldest_due_at is not None and waiting.oldest_due_at <= now - delay():
        return Standing.HELD_BACK if waiting.has_workers and limits_itself(webhook) else Standing.DELAYED
    is_unused = health.last_success_at is None and health.last_given_up_at is None and health.refused_at is None
    return Standing.UNUSED if is_unused else Standing.HEALTHY


def delay() -> timedelta:
    """Return the time after which an event that is due is late."""
    return timedelta(seconds=Thresholds.configured().delayed_seconds)


def limits_itself(webhook: Webhook) -> bool:
    """Return True if a choice of the webhook can hold back events that are due."""
    return webhook.rate_limit is not None or webhook.max_in_flight is not None or webhook.order != Order.NONE


def conditions(now: datetime) -> dict[Standing, Q]:
    """Return the same rule as conditions for rows of Webhook, each in a query of its own, the gravest first."""
    status = Webhook.Status
    running = Q(status=status.ACTIVE, paused_at=None)
    failing = Q(Exists(WebhookHealth.objects.filter(is_failing(now), webhook=OuterRef("pk"))))
    well = running & ~failing
    partly = Q(health__trouble=Trouble.PARTLY)
    retrying = Q(exists(_retries(now))) | Q(health__failing_since__isnull=False)
    slow = Q(health__trouble=Trouble.SLOW)
    late = Q(exists(_due(now - delay())))
    chooses = Q(rate_limit__isnull=False) | Q(max_in_flight__isnull=False) | ~Q(order=Order.NONE)
    held = chooses & Q(Exists(WorkerProcess.objects.running()))
    quiet = well & ~partly & ~retrying & ~slow & ~late
    unused = Q(health__last_success_at=None, health__last_given_up_at=None, health__refused_at=None)
    return {
        Standing.FAILING: running & failing,
        Standing.VERIFICATION_FAILED: Q(status=status.FAILED),
        Standing.DISABLED: Q(status=status.DISABLED),
        Standing.PARTLY_FAILING: well & partly,
        Standing.RETRYING: well & ~partly & retrying,
        Standing.SLOW: well & ~retrying & slow,
        Standing.DELAYED: well & ~partly & ~retrying & ~slow & late & ~held,
        Standing.HELD_BACK: well & ~partly & ~retrying & ~slow & late & held,
        Standing.PAUSED: Q(status=status.ACTIVE, paused_at__isnull=False),
        Standing.UNVERIFIED: Q(status=status.PENDING),
        Standing.UNUSED: quiet & unused,
        Standing.HEALTHY: quiet & ~unused,
    }


def exists(rows: Any) -> IsNull:
    """Return the condition that such a row exists, which is looked up in the index for each row of the query.

    For ``EXISTS`` or ``IN``, PostgreSQL may read the whole table instead, into a hash table.
    """
    return IsNull(Subquery(rows.values("pk")[:1]), False)


def _retries(now: datetime) -> OrderedEntries:
    return QueueEntry.objects.filter(webhook=OuterRef("pk"), kind=EVENT, due_at__gt=now, attempt__gt=0)


def _due(at: datetime) -> OrderedEntries:
    """Return the entries of events that were due at this time, and that no worker has begun."""
    return QueueEntry.objects.filter(webhook=OuterRef("pk"), kind=EVENT, due_at__lte=at, claimed_at=None)


def health_of(webhook: Webhook, now: datetime | None = None) -> Health:
    """Return the judgement of one webhook, with its outlook. Lists use ``healths_of``."""
    now = now or timezone.now()
    found = healths_of([webhook], now)[webhook.pk]
    return replace(found, outlook=_outlook(webhook, now)) if found.standing in WAITING else found


def _outlook(webhook: Webhook, now: datetime) -> Outlook:
    """Read what waits for a webhook from its queue, of which few rows are read."""
    entries = QueueEntry.objects.using(webhook.alias).filter(webhook=webhook, kind=EVENT)
    columns = ("due_at", "attempt", "max_attempts", "retry_policy")
    rows = list(entries.order_by("webhook_id", "due_at").values_list(*columns)[: MAX_WAITING + 1])
    due = [due_at for due_at, *_rest in rows if due_at is not None]
    ends = [_end(max(due_at, now), *rest) for due_at, *rest in rows if due_at is not None and rest[0]]
    return Outlook(waiting=len(rows), next_attempt_at=min(due, default=None), given_up_at=min(ends, default=None))


def _end(due_at: datetime, attempt: int, max_attempts: int, policy: str) -> datetime:
    """Return the earliest time of the last attempt of a delivery whose next one is then."""
    return due_at + sum(policy_of_delivery(policy).delays[attempt : max_attempts - 1], timedelta(0))


def healths_of(webhooks: Iterable[Webhook], now: datetime | None = None) -> Mapping[str, Health]:
    """Return the judgement of each of a page's webhooks, which should be loaded with ``health``.

    There are two queries, and two more if any of the webhooks is recovering automatically.
    """
    now = now or timezone.now()
    rows = list(webhooks)
    if not rows:
        return {}
    waiting = _waiting(rows[0].alias, [row.pk for row in rows if row.status == Webhook.Status.ACTIVE], now)
    recovering = [row.pk for row in rows if row.recovers_itself and not row.is_deleted]
    found = Episode.objects.using(rows[0].alias).filter(pk__in=recovering)
    episodes = {episode.pk: episode for episode in found} if recovering else {}
    halted = found.with_halted_replay() if episodes else set()
    return {
        row.pk: judged(
            row,
            WebhookHealth.of(row),
            waiting.get(row.pk, Waiting()),
            now,
            episode=episodes.get(row.pk),
            is_halted=row.pk in halted,
        )
        for row in rows
    }


def _waiting(using: str, webhook_ids: list[str], now: datetime) -> dict[str, Waiting]:
    if not webhook_ids:
        return {}
    oldest, retry = _first(_due(now)), _first(_retries(now))
    rows: Any = having_ids(Webhook.objects.using(using), webhook_ids).order_by()
    found = list(rows.values_list("pk", oldest, retry))
    is_anything_due = any(due_at is not None for _pk, due_at, _retry_at in found)
    has_workers = not is_anything_due or WorkerProcess.objects.using(using).running().exists()
    return {pk: Waiting(due_at, retry_at, has_workers) for pk, due_at, retry_at in found}


def _first(entries: Any) -> Subquery:
    return Subquery(entries.order_by("due_at").values("due_at")[:1])
