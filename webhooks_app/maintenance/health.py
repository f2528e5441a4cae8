"""The health of webhooks: what results change, and the rule that warns about failing webhooks and disables them."""

from __future__ import annotations

import enum
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple, Self

from django.db import InterfaceError, OperationalError, transaction

from ..conf import retry_policy, settings
from ..database.sql import kind_of, upsert, writing
from ..models import Tally, Webhook, WebhookHealth
from ..models.audit import SYSTEM, acting
from ..models.health import CLEARED, FailingPeriod
from ..reasons import ReasonText
from .notifications import emit_given_up, notify_disabled, notify_failing, notify_recovered
from .problems import note_results
from .recovery import note_missed
from .rollups.folding import Folded, TalliedWebhook, read

logger = logging.getLogger("webhooks_app.health")

SLOW = timedelta(hours=1)
"""Minimum span of a retry policy for which a single given-up delivery is sufficient evidence."""

PRECISION = timedelta(minutes=1)
"""The precision of the last success: a healthy webhook has one update per minute."""

MOVED = (
    *("last_success_at", "last_given_up_at", "past_failures", "trouble"),
    *CLEARED,
)


class Consequence(enum.Enum):
    NONE = "none"
    WARN = "warn"
    DISABLE = "disable"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """Disable a webhook if all deliveries have been given up for the time of ``after``. Warn after half of it.

    Both require ``min_deliveries`` given up, with ``min_span`` between the first and the last. One is sufficient under
    a retry policy with a span of at least ``min_span``, because its delivery has failed for that time.
    """

    after: timedelta
    min_deliveries: int
    min_span: timedelta
    disables: bool = True

    @classmethod
    def configured(cls) -> Self:
        return cls(
            after=timedelta(days=settings.AUTO_DISABLE_AFTER_DAYS),
            min_deliveries=settings.AUTO_DISABLE_MIN_DELIVERIES,
            min_span=timedelta(hours=settings.AUTO_DISABLE_MIN_SPAN_HOURS),
            disables=settings.AUTO_DISABLE,
        )

    @property
    def warns_after(self) -> timedelta:
        return self.after / 2

    def consequence(self, health: WebhookHealth, now: datetime) -> Consequence:
        """Return the action for a webhook. DISABLE can come without an earlier warning."""
        if health.given_up_since is None or not self.is_enough(health):
            return Consequence.NONE
        age = now - health.given_up_since
        if self.disables and age >= self.after:
            return Consequence.DISABLE
        return Consequence.WARN if health.warned_at is None and age >= self.warns_after else Consequence.NONE

    def is_enough(self, health: WebhookHealth) -> bool:
        """Return True if the given-up deliveries are too many, over too long a time, for a temporary failure."""
        if health.given_up_since is None or health.last_given_up_at is None:
            return False
        if retry_policy(health.webhook.retry_policy).span >= max(self.min_span, SLOW):
            return True
        span = health.last_given_up_at - health.given_up_since
        return health.given_up_count >= self.min_deliveries and span >= self.min_span

    def disables_at(self, health: WebhookHealth) -> datetime | None:
        """Return the earliest time of disabling without a successful delivery, or None if it is never disabled."""
        if health.given_up_since is None or not self.disables:
            return None
        return health.given_up_since + self.after


class Recovery(NamedTuple):
    """The recovery of a webhook whose failure was announced."""

    webhook_id: str
    failed_since: datetime
    recovered_at: datetime
    given_up: int = 0


def move(health: WebhookHealth, entry: TalliedWebhook) -> bool:
    """Apply one batch of results. Return True if the health changed."""
    at = entry.recorded_at
    number = entry.counters.get("given_up", 0)
    since_success = entry.given_up_since_success
    if health.cleared_at is not None and at <= health.cleared_at:
        return _add_to_past(health, entry, max(number, since_success))
    has_changed = False
    if entry.has_success:
        if number > since_success:
            health.note_given_up(at, number - since_success, entry.missed_from)
        has_changed = _note_success(health, entry)
    if entry.refused:
        health.note_refused(at, entry.refused)
        has_changed = True
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
    stored = rows.select_for_update().filter(pk__in=list(by_webhook)).order_by("pk")
    known = {row.webhook_id: row for row in stored.readable()}
    missing = by_webhook.keys() - known.keys()
    existing = set(Webhook.objects.using(using).filter(pk__in=missing).values_list("pk", flat=True)) if missing else ()
    changed, recoveries = [], []
    for webhook_id in sorted(known.keys() | existing):
        health = known.get(webhook_id) or WebhookHealth(webhook_id=webhook_id)
        failed_since = health.failing_since if health.announced_at else None
        given_up = health.given_up_count
        if _move_all(health, by_webhook[webhook_id]):
            changed.append(health)
        if failed_since and health.announced_at is None:
            # One of the entries contained a success, so last_success_at is set, with a precision of a minute.
            recovered_at = health.last_success_at or failed_since
            recoveries.append(Recovery(webhook_id, failed_since, recovered_at, given_up))
    if changed:
        upsert(rows, changed, unique=("webhook",), update=MOVED)
    return recoveries


def _move_all(health: WebhookHealth, entries: Sequence[TalliedWebhook]) -> bool:
    """Apply batches of results. Return True if the health changed, and False if its row is damaged."""
    try:
        return sum(move(health, entry) for entry in entries) > 0
    except Exception as error:  # noqa: BLE001 - whatever the row contains must not stop the other webhooks
        logger.error("The health of webhook %s is damaged: %s.", health.webhook_id, kind_of(error))  # noqa: TRY400
        return False


def _note_success(health: WebhookHealth, entry: TalliedWebhook) -> bool:
    if (
        health.refused_since is None
        and health.given_up_since is None
        and _is_recent(health.last_success_at, entry.recorded_at)
    ):
        return False
    health.last_success_at = entry.recorded_at
    health.end_period(entry.recorded_at)
    return True


def _is_recent(moment: datetime | None, now: datetime) -> bool:
    return moment is not None and now - moment < PRECISION


def take_in(using: str, folded: Folded) -> None:
    """Update health and problems from folded tallies, in the fold's transaction. Report recoveries and deliveries
    that were given up.
    """
    note_results(using, folded.webhooks)
    notify_recovered(using, update_states(using, folded.webhooks))
    note_missed(using, folded.webhooks)
    emit_given_up(using, folded.given_up)


def watch(using: str, now: datetime) -> None:
    """Warn about webhooks that have been failing for half of the time limit, and disable those that exceed it.

    ``now`` is the database's time. An exception for one webhook is raised after the evaluation of the others.
    """
    rule = Rule.configured()
    problem: Exception | None = None
    failing = WebhookHealth.objects.using(using).filter(given_up_since__lte=now - rule.warns_after)
    failing = failing.filter(webhook__in=Webhook.objects.using(using).active()).select_related("webhook")
    for health in failing.order_by("given_up_since").readable():
        try:
            if rule.consequence(health, now) is Consequence.NONE:
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
        consequence = rule.consequence(health, now)
        if consequence is not Consequence.NONE:
            _act(consequence, webhook, health, rule, now)
            # Checked last, because a success may be recorded meanwhile.
            if _has_unfolded_success(using, webhook_id):
                transaction.set_rollback(True, using=using)


def _act(consequence: Consequence, webhook: Webhook, health: WebhookHealth, rule: Rule, now: datetime) -> None:
    if health.warned_at is None:
        _warn(webhook, health, rule, now)
    if consequence is Consequence.DISABLE:
        _disable(webhook, health, rule, now)


def _has_unfolded_success(using: str, webhook_id: str) -> bool:
    """Return True if a success is recorded but not yet folded.

    Folding it requires the lock on the health, so its tally still exists.
    """
    tallies = Tally.objects.using(using).filter(counts__contains=webhook_id.removeprefix("wh_"))
    return any(entry.has_success for tally in tallies for entry in read(tally)[0] if entry.webhook_id == webhook_id)


def _warn(webhook: Webhook, health: WebhookHealth, rule: Rule, now: datetime) -> None:
    health.warned_at, health.announced_at = now, health.announced_at or now
    health.save(update_fields=["warned_at", "announced_at"])
    notify_failing(webhook, health, rule, now, is_warning=True)
    _log(health, "Webhook %s has been failing since %s.", webhook.pk, health.failing_since)


def _disable(webhook: Webhook, health: WebhookHealth, rule: Rule, now: datetime) -> None:
    with acting(SYSTEM):
        webhook.disable(_reason(health, rule))
    notify_disabled(webhook, health, now)
    _log(health, "Webhook %s is disabled: %s", webhook.pk, webhook.status_reason)


def _log(health: WebhookHealth, text: str, *args: object) -> None:
    """Log a warning after the commit."""
    attributes = {"webhook_id": health.webhook_id, "given_up": health.given_up_count}
    transaction.on_commit(partial(logger.warning, text, *args, extra=attributes), using=health.alias)


def _reason(health: WebhookHealth, rule: Rule) -> ReasonText:
    days, since = rule.after.total_seconds() / 86_400, f"{health.given_up_since:%Y-%m-%d %H:%M}"
    return ReasonText("all_given_up", days=days, number=str(health.given_up_count), since=since)
