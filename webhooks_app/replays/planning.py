"""Asking for a replay: it is counted first, and nothing is sent before it is started."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.core.exceptions import ValidationError
from django.db import DEFAULT_DB_ALIAS, transaction
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from ..delivery.clock import DatabaseClock
from ..exceptions import WebhookStateError
from ..ids import first_id_at, time_of
from ..models import Delivery, Replay, Webhook, WebhookHealth
from ..models.audit import Action
from ..models.keyset import read_page
from ..models.replay import MOST_OPEN, missing_outcomes
from ..times import format_time
from .carrying import count

COUNT_SECONDS = 1.0
"""For how long who asks is made to wait for the count; workers do the rest."""

LOOK_BACK = timedelta(days=7)
MARGIN = timedelta(minutes=5)
"""Longer than retries go on: what was queued shortly before the last success may have been given up after it."""

ONE_TICK = timedelta(milliseconds=1)


def plan_replay(
    webhook: Webhook,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    event_types: Sequence[str] = (),
    states: Sequence[str] | None = None,
    rate: float | None = None,
    requested_by: Any = None,
    max_seconds: float = COUNT_SECONDS,
) -> Replay:
    """Save what is to be replayed and count it, in the background where that takes long; ``start()`` then sends it.

    By default: what was missed, given up or cancelled since the webhook was last delivering, of all types that it is
    subscribed to. What happens after now never joins, nor does what was before the webhook. A webhook that is stopped
    is counted for too, but must be enabled before the start.

    Raises django.core.exceptions.ValidationError with the problems by field, and WebhookStateError for a webhook that
    is deleted, not subscribed to one of the types, or has too many replays that are not over.
    """
    using = webhook._state.db or DEFAULT_DB_ALIAS
    _require_subscribed(webhook, event_types)
    _require_few(using, webhook)
    end = timezone.now() + ONE_TICK  # identifiers tell the millisecond: what has just happened is meant, too
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
    )
    replay.full_clean()
    with transaction.atomic(using=using):
        replay.save(using=using, force_insert=True)
        replay.audit_creation(Action.REPLAY_PLANNED)
    count(using, replay, DatabaseClock(using), max_seconds=max_seconds)
    return replay


def _require_subscribed(webhook: Webhook, event_types: Sequence[str]) -> None:
    if webhook.deleted_at is not None:
        raise WebhookStateError(f"Webhook {webhook.id} is deleted.")
    if others := [name for name in event_types if name not in webhook.event_types]:
        raise WebhookStateError(f"Webhook {webhook.id} is not subscribed to: {', '.join(others)}.")


def _require_few(using: str, webhook: Webhook) -> None:
    if len(Replay.objects.using(using).filter(webhook=webhook).open()[:MOST_OPEN]) == MOST_OPEN:
        raise WebhookStateError(
            f"Webhook {webhook.id} has {MOST_OPEN} replays that are ready, running or paused. Cancel one of them first."
        )


def _require_order(since: datetime, until: datetime | None) -> None:
    if until is not None and until <= since:
        message = _("Give a time after %(since)s, when it begins.") % {"since": format_time(since)}
        raise ValidationError({"until": message})


def missed_since(webhook: Webhook) -> datetime:
    """Return when the webhook was last delivering before the trouble that it is in, or was in within a week.

    A week ago where there was no trouble. Never before the webhook was made.
    """
    using = webhook._state.db or DEFAULT_DB_ALIAS
    health = WebhookHealth.objects.using(using).filter(pk=webhook.pk).first()
    is_stopped = webhook.status in (Webhook.Status.DISABLED, Webhook.Status.FAILED)
    week_ago = timezone.now() - LOOK_BACK
    if is_stopped or (health is not None and health.failing_since is not None):
        since = _last_success_before(using, webhook, None)
    elif (cleared_at := _cleared_at(health, week_ago)) is not None:
        since = _last_success_before(using, webhook, cleared_at)
    else:
        since = week_ago
    return max(since, webhook.created_at)


def _cleared_at(health: WebhookHealth | None, week_ago: datetime) -> datetime | None:
    """Return when a trouble was forgotten: within the week, or with no success since, as that of one who is paused."""
    if health is None or health.cleared_at is None:
        return None
    has_succeeded = health.last_success_at is not None and health.last_success_at > health.cleared_at
    return None if has_succeeded and health.cleared_at <= week_ago else health.cleared_at


def _last_success_before(using: str, webhook: Webhook, moment: datetime | None) -> datetime:
    rows = Delivery.objects.using(using).filter(webhook=webhook)
    if moment is not None:
        rows = rows.filter(pk__lt=first_id_at("dlv", moment))
    successes = rows.filter(state=Delivery.State.SUCCEEDED, kind=Delivery.Kind.EVENT)
    page = read_page(successes, scope=rows, size=1)
    if page.rows:
        return time_of(page.rows[0].pk) - MARGIN
    # Among so many none: what is behind them was given up, too.
    return time_of(page.older.digits) if page.older else webhook.created_at
