"""Planning of replays. A replay is counted first, and sends nothing until its start."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.core.exceptions import ValidationError
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from ..exceptions import WebhookStateError
from ..models import Delivery, Replay, Webhook, WebhookHealth
from ..models.audit import Action
from ..models.health import FailingPeriod, stopped_since
from ..models.keyset import read_page
from ..models.replay import MOST_OPEN, missing_outcomes
from ..protocol.ids import first_id_at, time_of
from ..protocol.json_data import format_time
from ..reasons import ReasonText
from ..routing import is_subscribed
from .selection import MOST_EVENTS, look

LOOK_BACK = timedelta(days=7)
MARGIN = timedelta(minutes=5)
"""Longer than the usual retries. A delivery queued shortly before the last success may have been given up after it."""

ONE_TICK = timedelta(milliseconds=1)

MOST_COUNTED = 3000
"""Maximum number of events that a page examines to count the missed ones."""


def plan_replay(
    webhook: Webhook,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    event_types: Sequence[str] = (),
    states: Sequence[str] | None = None,
    rate: float | None = None,
    requested_by: Any = None,
    starts_when_counted: bool = False,
) -> Replay:
    """Save a replay in the caller's transaction, with the webhook locked. It is counted next, and then started.

    With ``starts_when_counted``, whichever process completes the count starts it. Otherwise somebody has to.

    By default it covers the missed, given up and cancelled events of all subscribed types, since the beginning of the
    first failing period of the last week. Events before the creation of the webhook, or after now, are never included.
    A replay for a stopped webhook is counted too, but the webhook must be enabled before the start.

    Raise ValidationError for invalid fields. Raise WebhookStateError if the webhook is not subscribed to one of the
    types, or has too many unfinished replays.
    """
    using = webhook.alias
    _require_subscribed(webhook, event_types)
    _require_few(using, webhook)
    end = timezone.now() + ONE_TICK  # includes events of the current millisecond, the precision of identifiers
    since = since or missed_since(webhook)
    _require_order(since, until)
    begin = min(max(since, webhook.created_at), end)
    replay = Replay(
        webhook=webhook,
        since=begin,
        until=max(begin, min(until or end, end)),
        event_types=list(dict.fromkeys(event_types)),
        states=missing_outcomes() if states is None else list(dict.fromkeys(states)),
        rate=rate,
        requested_by=requested_by,
        starts_when_counted=starts_when_counted,
    )
    replay.failing = [
        period.as_json() for period in failing_periods(webhook, since=begin) if period.began_at < replay.until
    ]
    replay.full_clean()
    replay.save(using=using, force_insert=True)
    replay.audit_creation(Action.REPLAY_PLANNED)
    return replay


def _require_subscribed(webhook: Webhook, event_types: Sequence[str]) -> None:
    if others := [name for name in event_types if not is_subscribed(webhook, name)]:
        raise WebhookStateError(ReasonText("webhook_not_subscribed", id=webhook.id, types=", ".join(others)))


def _require_few(using: str, webhook: Webhook) -> None:
    if len(Replay.objects.using(using).filter(webhook=webhook).open()[:MOST_OPEN]) == MOST_OPEN:
        raise WebhookStateError(ReasonText("too_many_replays", id=webhook.id, number=MOST_OPEN))


def _require_order(since: datetime, until: datetime | None) -> None:
    if until is not None and until <= since:
        message = _("Give a time after %(since)s, when it begins.") % {"since": format_time(since)}
        raise ValidationError({"until": message})


def failing_periods(webhook: Webhook, *, since: datetime | None = None) -> list[FailingPeriod]:
    """Return the failing periods of a webhook that end after ``since``, in order.

    ``since`` is a week ago by default. A period without a later success is included even if it is older.
    """
    using = webhook.alias
    health = WebhookHealth.objects.using(using).filter(pk=webhook.pk).first() or WebhookHealth(webhook=webhook)
    if webhook.is_stopped and health.failing_since is None:
        health.failing_since = stopped_since(webhook)
    edge = since or timezone.now() - LOOK_BACK
    success_at = health.last_success_at
    return [
        period
        for period in health.failures()
        if period.ended_at is None or period.ended_at > edge or success_at is None or success_at < period.ended_at
    ]


def missed_since(webhook: Webhook) -> datetime:
    """Return the earliest time of possibly missed events: in the first failing period of the last week.

    Without a failing period it is a week ago. It is never before the creation of the webhook.
    """
    periods = failing_periods(webhook)
    since = min((_missed_from(webhook, period) for period in periods), default=timezone.now() - LOOK_BACK)
    return max(since, webhook.created_at)


class Missed(NamedTuple):
    """The events that a webhook missed since the beginning of a failing period."""

    number: int
    since: datetime
    has_more: bool = False
    """Whether later events were not examined."""


def count_missed(webhook: Webhook) -> Missed:
    """Count the events that ``plan_replay`` covers by default, among at most ``MOST_COUNTED``; save nothing."""
    end = timezone.now() + ONE_TICK
    since = min(missed_since(webhook), end)
    draft = Replay(webhook=webhook, since=since, until=end, states=missing_outcomes())
    number = 0
    for _page in range(MOST_COUNTED // MOST_EVENTS):
        found = look(webhook.alias, draft)
        number += len(found.matches)
        if found.is_last:
            return Missed(number, since)
        draft.cursor = found.examined[-1]
    return Missed(number, since, has_more=True)


def _missed_from(webhook: Webhook, period: FailingPeriod) -> datetime:
    """Return the earliest time of possibly missed events in a failing period.

    A success after the beginning of the period does not count, even if its delivery was queued before.
    """
    last = _last_success_before(webhook, period.began_at)
    return min(last, period.missed_from - MARGIN) if period.missed_from is not None else last


def _last_success_before(webhook: Webhook, moment: datetime) -> datetime:
    """Return a time shortly before the last success that was recorded before ``moment``."""
    rows = Delivery.objects.using(webhook.alias).filter(webhook=webhook)
    rows = rows.filter(pk__lt=first_id_at("dlv", moment))
    successes = rows.filter(state=Delivery.State.SUCCEEDED, kind=Delivery.Kind.EVENT, finished_at__lt=moment)
    page = read_page(successes, scope=rows, size=1)
    if page.rows:
        return time_of(page.rows[0].pk) - MARGIN
    # The read rows contain no success, so earlier deliveries were given up too.
    return time_of(page.older.digits) if page.older else webhook.created_at
