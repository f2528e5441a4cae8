"""Updates of the health of webhooks from tallies."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from ...database.sql import upsert
from ...models import Webhook, WebhookHealth
from ...models.health import FailingPeriod
from ..rollups.counting import TalliedWebhook

PRECISION = timedelta(minutes=1)
"""The precision of the last success: a healthy webhook has one update per minute."""

MOVED = (
    *("last_success_at", "last_given_up_at", "failing_since", "given_up_count", "missed_from", "warned_at"),
    "past_failures",
)


class Recovery(NamedTuple):
    """The recovery of a webhook after a warning to its owner."""

    webhook_id: str
    failed_since: datetime
    recovered_at: datetime


def move(health: WebhookHealth, entry: TalliedWebhook) -> bool:
    """Apply one batch of results. Return True if the health changed."""
    at = entry.recorded_at
    number = entry.counters.get("given_up", 0)
    since_success = entry.given_up_since_success
    if health.cleared_at is not None and at <= health.cleared_at:
        return _add_to_past(health, entry, max(number, since_success))
    has_changed = False
    if has_success(entry):
        if number > since_success:
            health.note_given_up(at, number - since_success, entry.missed_from)
        has_changed = _note_success(health, entry)
    if not number and entry.missed_from is not None:
        health.note_cancelled(entry.missed_from)
        return True
    if not since_success:
        return has_changed
    health.note_given_up(at, since_success, entry.missed_from)
    return True


def _add_to_past(health: WebhookHealth, entry: TalliedWebhook, number: int) -> bool:
    """Add results to the past periods that were recorded before the health was cleared, but folded later."""
    if not number and entry.missed_from is None:
        return False
    health.keep(
        FailingPeriod(
            began_at=entry.recorded_at, ended_at=health.cleared_at, given_up=number, missed_from=entry.missed_from
        )
    )
    return True


def update_states(using: str, entries: Iterable[TalliedWebhook]) -> list[Recovery]:
    """Update the health of the webhooks in the caller's transaction. Return the recovered ones."""
    by_webhook: dict[str, list[TalliedWebhook]] = {}
    for entry in entries:
        by_webhook.setdefault(entry.webhook_id, []).append(entry)
    rows = WebhookHealth.objects.using(using)
    known = {row.webhook_id: row for row in rows.select_for_update().filter(pk__in=list(by_webhook)).order_by("pk")}
    missing = by_webhook.keys() - known.keys()
    existing = set(Webhook.objects.using(using).filter(pk__in=missing).values_list("pk", flat=True)) if missing else ()
    changed, recoveries = [], []
    for webhook_id in sorted(known.keys() | existing):
        health = known.get(webhook_id) or WebhookHealth(webhook_id=webhook_id)
        failed_since = health.failing_since if health.warned_at else None
        if sum(move(health, entry) for entry in by_webhook[webhook_id]):
            changed.append(health)
        if failed_since and health.warned_at is None:
            # One of the entries contained a success, so last_success_at is set, with a precision of a minute.
            recoveries.append(Recovery(webhook_id, failed_since, health.last_success_at or failed_since))
    if changed:
        upsert(rows, changed, unique=("webhook",), update=MOVED)
    return recoveries


def has_success(entry: TalliedWebhook) -> bool:
    return bool(entry.counters.get("succeeded_at_once") or entry.counters.get("succeeded_later"))


def _note_success(health: WebhookHealth, entry: TalliedWebhook) -> bool:
    if health.failing_since is None and _is_recent(health.last_success_at, entry.recorded_at):
        return False
    health.last_success_at = entry.recorded_at
    health.end_period(entry.recorded_at)
    return True


def _is_recent(moment: datetime | None, now: datetime) -> bool:
    return moment is not None and now - moment < PRECISION
