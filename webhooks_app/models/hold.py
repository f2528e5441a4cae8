"""The rule that decides whether a delivery may be sent now: the reason for one delivery, and conditions in SQL."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from operator import or_
from typing import NamedTuple

from django.db import models
from django.db.models import Count, Exists, Min, Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from ..conf import settings
from ..exceptions import AlreadyInStateError, WebhookStateError
from ..reasons import ReasonText
from .delivery import Delivery
from .lane import FAST_SECONDS
from .limits import RateLimit
from .queue_entry import QueueEntry
from .status import PROBES, WebhookState, is_changing_url, stop_reason
from .webhook import Order, Webhook


class HoldReason(models.TextChoices):
    """The reasons in order of precedence. The first that applies is returned."""

    FINAL = "final", _("finished")
    IN_FLIGHT = "in_flight", _("in flight")
    LOST = "lost", _("worker lost")
    STOPPED = "stopped", _("webhook stopped")
    PAUSED = "paused", _("paused")
    UNVERIFIED = "unverified", _("waiting for verification")
    FILTER_PENDING = "filter_pending", _("waiting for its filter")
    ORDERED = "ordered", _("behind an earlier delivery")
    EXPIRED = "expired", _("expired")
    ADDRESS_BUSY = "address_busy", _("address busy")
    NOT_DUE = "not_due", _("not due")
    RATE_LIMITED = "rate_limited", _("rate limit reached")
    WITHHELD = "withheld", _("rate limit nearly reached")
    CONCURRENCY = "concurrency", _("all requests in flight")
    UNSIGNED = "unsigned", _("not signable")
    SLOW = "slow", _("slow receiver")
    HIDDEN = "hidden", _("hidden")


SILENT = (HoldReason.FINAL, HoldReason.HIDDEN)
"""Reasons that are not shown: nothing is held, or the times of the delivery are hidden from its owner."""


_AFTER_LOAD = (HoldReason.UNSIGNED, HoldReason.SLOW)
"""Reasons with less precedence than the load of the webhook."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Hold:
    reason: HoldReason
    since: datetime | None = None
    """Start of the pause or claim, end of the lost lease, or time of expiry."""
    until: datetime | None = None
    """Time at which this reason ends by itself, or None if it does not or the time is unknown."""
    in_flight: int | None = None
    max_in_flight: int | None = None
    blocker: str | None = None
    """The first delivery of the group, which is sent before this one."""


class Load(NamedTuple):
    """The claims of a webhook in flight."""

    in_flight: int = 0
    open_since: datetime | None = None
    """Time of the oldest claim."""


NO_LOAD = Load()


def hold_of(
    delivery: Delivery,
    *,
    now: datetime,
    load: Load = NO_LOAD,
    max_in_flight: int | None = None,
    blocker: str | None = None,
) -> Hold | None:
    """Return the reason why no worker can send this delivery now, or None if the next free one can.

    ``blocker`` is the earlier delivery of its group for which it waits, from ``blockers_of``. ``max_in_flight`` limits
    the claims of the webhook. By default this is the configured limit, or one before the first result. Slow webhooks
    share a part of each worker's requests and may have to wait for each other. The oldest of several sendable
    deliveries is sent first.
    """
    if delivery.hides_times:
        return Hold(reason=HoldReason.HIDDEN)
    return (
        _hold_by_claim(delivery, now)
        or _hold_by_webhook(delivery)
        or _hold_by_filter(delivery)
        or _hold_by_order(delivery, blocker)
        or _hold_by_expiry(delivery, now)
        or _hold_by_time(delivery, now)
        or _hold_by_rate(delivery, now)
        or _hold_by_load(delivery.webhook, load, max_in_flight)
        or _hold_by_keys(delivery.webhook, now)
        or _hold_by_pace(delivery.webhook, load, now)
    )


def holds_of(deliveries: Sequence[Delivery], *, now: datetime) -> list[Hold | None]:
    """Return the hold of each delivery, with at most one query for all webhooks together, and one for ordered ones.

    The deliveries must be loaded with their webhooks, lanes and queue entries.
    """
    blockers = blockers_of(deliveries)
    holds = [hold_of(delivery, now=now, blocker=blockers.get(delivery.pk)) for delivery in deliveries]
    free = {
        delivery.webhook_id
        for delivery, hold in zip(deliveries, holds, strict=True)
        if hold is None or hold.reason in _AFTER_LOAD
    }
    if not free:
        return holds
    loads = _loads(deliveries[0].alias, free, now)
    return [
        hold_of(
            delivery,
            now=now,
            load=loads.get(delivery.webhook_id, NO_LOAD),
            blocker=blockers.get(delivery.pk),
        )
        if delivery.webhook_id in free
        else hold
        for delivery, hold in zip(deliveries, holds, strict=True)
    ]


NOT_RETRIED = {
    HoldReason.FINAL: "delivery_final",
    HoldReason.IN_FLIGHT: "delivery_in_flight",
    HoldReason.LOST: "delivery_in_flight",
    HoldReason.STOPPED: "delivery_stopped",
    HoldReason.PAUSED: "delivery_paused",
    HoldReason.UNVERIFIED: "delivery_unverified",
    HoldReason.FILTER_PENDING: "delivery_awaits_filter",
    HoldReason.ORDERED: "delivery_behind",
    HoldReason.EXPIRED: "delivery_expired",
    HoldReason.ADDRESS_BUSY: "delivery_postponed",
}
"""The reasons that a new due time does not end, each with the refusal of a retry by hand."""


def require_retryable(delivery: Delivery) -> None:
    """Raise WebhookStateError unless a pending delivery waits for its time only, AlreadyInStateError if it is due.

    The limits of a webhook do not matter: the attempt is made as soon as they permit. The delivery must be loaded with
    its webhook and queue entry.
    """
    if delivery.event_id is None:
        raise WebhookStateError(ReasonText("verification_not_retried"))
    is_probe = delivery.kind == Delivery.Kind.TEST and delivery.webhook.status != Webhook.Status.ACTIVE
    if is_probe or delivery.is_masked:  # whose answers would tell its owner how long an attempt takes
        raise WebhookStateError(ReasonText("test_not_retried"))
    hold = hold_of(delivery, now=timezone.now(), blocker=blockers_of([delivery]).get(delivery.pk))
    if hold is not None and hold.reason in NOT_RETRIED:
        raise WebhookStateError(ReasonText(NOT_RETRIED[hold.reason], id=delivery.pk))
    if hold is None or hold.reason != HoldReason.NOT_DUE:
        raise AlreadyInStateError(ReasonText("delivery_due", id=delivery.pk))


def standing_reason(kind: str, webhook: WebhookState) -> HoldReason | None:
    """Return the reason why this kind waits for a change of the webhook, or None."""
    if stop_reason(kind, webhook):
        return HoldReason.STOPPED
    if webhook.paused_at is not None and not (kind == Delivery.Kind.VERIFICATION and is_changing_url(webhook)):
        return HoldReason.PAUSED
    if webhook.status != Webhook.Status.ACTIVE and kind not in PROBES:
        return HoldReason.UNVERIFIED
    return None


def permitted_kinds(webhook: WebhookState) -> tuple[Delivery.Kind, ...]:
    """Return the kinds of deliveries that do not wait for a change of the webhook."""
    return tuple(kind for kind in Delivery.Kind if not standing_reason(kind, webhook))


def _hold_by_claim(delivery: Delivery, now: datetime) -> Hold | None:
    if delivery.state != Delivery.State.PENDING:
        return Hold(reason=HoldReason.FINAL, since=delivery.finished_at)
    until = delivery.leased_until
    if until is None:
        return None
    if until > now:
        return Hold(reason=HoldReason.IN_FLIGHT, since=delivery.claimed_at, until=until)
    return Hold(reason=HoldReason.LOST, since=until)


def _hold_by_webhook(delivery: Delivery) -> Hold | None:
    reason = standing_reason(delivery.kind, delivery.webhook)
    if reason == HoldReason.PAUSED:
        return Hold(reason=reason, since=delivery.webhook.paused_at)
    return Hold(reason=reason) if reason else None


def _hold_by_filter(delivery: Delivery) -> Hold | None:
    awaits_filter = delivery.entry is not None and delivery.entry.filter_at is not None
    return Hold(reason=HoldReason.FILTER_PENDING) if awaits_filter else None


def blockers_of(deliveries: Sequence[Delivery]) -> dict[str, str]:
    """Return the first delivery of the group for each delivery that waits for it."""
    ordered = [each for each in deliveries if each.entry is not None and each.entry.place is not None]
    ids = [each.pk for each in ordered if each.webhook.order != Order.NONE]
    if not ids:
        return {}
    entries = QueueEntry.objects.using(ordered[0].alias)
    rows = entries.filter(pk__in=ids).annotate(blocker=entries.first_before()).values_list("pk", "blocker")
    return {pk: blocker for pk, blocker in rows if blocker}


MANY_WAITING = 20
"""Waiting deliveries by which the first ones of their groups are found."""


def fronts_of(webhook: Webhook) -> set[str]:
    """Return deliveries for which others of an ordered webhook wait. Of many groups, some are enough for a page."""
    if webhook.order == Order.NONE:
        return set()
    entries = QueueEntry.objects.using(webhook.alias)
    waiting = entries.in_groups().unclaimed().filter(webhook=webhook).annotate(front=entries.first_before())
    # Each in the order of an index: events without a group may be due in any number.
    parked = waiting.filter(due_at=None).order_by("webhook_id", "due_at")
    due = waiting.filter(due_at__lte=timezone.now()).order_by("webhook_id", "order_key", "place")
    return {front for some in (parked, due) for front in some.values_list("front", flat=True)[:MANY_WAITING] if front}


def _hold_by_expiry(delivery: Delivery, now: datetime) -> Hold | None:
    if delivery.expires_at is not None and delivery.expires_at <= now:
        return Hold(reason=HoldReason.EXPIRED, since=delivery.expires_at)
    return None


def _hold_by_order(delivery: Delivery, blocker: str | None) -> Hold | None:
    is_parked = delivery.entry is not None and delivery.entry.due_at is None
    return Hold(reason=HoldReason.ORDERED, blocker=blocker) if is_parked or blocker else None


def _hold_by_time(delivery: Delivery, now: datetime) -> Hold | None:
    due_at = delivery.due_at
    if due_at is None or due_at > now:
        return Hold(reason=HoldReason.ADDRESS_BUSY if _is_postponed(delivery) else HoldReason.NOT_DUE, until=due_at)
    return None


def _is_postponed(delivery: Delivery) -> bool:
    """Return True for a probe postponed before its first attempt. Only these can be due later."""
    entry = delivery.entry
    return delivery.kind in PROBES and entry is not None and entry.attempt == 0


def _hold_by_keys(webhook: Webhook, now: datetime) -> Hold | None:
    lane = webhook._state.fields_cache.get("lane")  # loaded with the webhook, or by the preceding rules
    if lane is None or lane.unsigned_until is None or lane.unsigned_until <= now:
        return None
    return Hold(reason=HoldReason.UNSIGNED, until=lane.unsigned_until)


def _hold_by_rate(delivery: Delivery, now: datetime) -> Hold | None:
    webhook = delivery.webhook
    if webhook.rate_limit is None:
        return None
    limit = RateLimit.of(webhook.rate_limit, webhook.next_slot_at)
    if not limit.allowance(now):
        return Hold(reason=HoldReason.RATE_LIMITED, until=limit.next_slot_at)
    if delivery.kind == Delivery.Kind.RETRY_NOTICE and limit.withholds_notices(now):
        return Hold(reason=HoldReason.WITHHELD)
    return None


def _hold_by_load(webhook: Webhook, load: Load, max_in_flight: int | None) -> Hold | None:
    limit = max_in_flight or (1 if webhook.is_fast is None else in_flight_limit(webhook))
    if load.in_flight < limit:
        return None
    return Hold(reason=HoldReason.CONCURRENCY, in_flight=load.in_flight, max_in_flight=limit)


def _hold_by_pace(webhook: Webhook, load: Load, now: datetime) -> Hold | None:
    is_late = load.open_since is not None and now - load.open_since >= timedelta(seconds=FAST_SECONDS)
    if not is_late and webhook.is_fast is not False:
        return None
    return Hold(reason=HoldReason.SLOW, since=load.open_since, in_flight=load.in_flight)


def in_flight_limit(webhook: Webhook) -> int:
    """Return the maximum number of deliveries in flight to a webhook, over all workers."""
    return webhook.max_in_flight or settings.MAX_IN_FLIGHT_PER_WEBHOOK


def _loads(using: str, webhook_ids: Collection[str], now: datetime) -> dict[str, Load]:
    """Return the load by webhook. Webhooks without claims are omitted."""
    entries = QueueEntry.objects.using(using)
    claimed = entries.claimed_first(list(webhook_ids), settings.MAX_IN_FLIGHT_PER_WEBHOOK)
    if not claimed:
        return {}
    claims = entries.filter(pk__in=claimed, leased_until__gt=now).order_by()
    rows = claims.values_list("webhook_id").annotate(Count("pk"), Min("claimed_at"))
    return {webhook_id: Load(number, since) for webhook_id, number, since in rows}


# The same rule as conditions for rows of QueueEntry, without the limits of a webhook. Claims in ``delivery/sql`` apply
# these to locked rows, because they are arithmetic or differ between workers.


class _State(NamedTuple):
    """A webhook that is neither paused nor deleted."""

    status: str
    pending_url: str = ""
    paused_at: datetime | None = None
    deleted_at: datetime | None = None


KINDS_BY_STATUS = {status.value: permitted_kinds(_State(status)) for status in Webhook.Status}
STOPPING = [status for status in KINDS_BY_STATUS if any(stop_reason(kind, _State(status)) for kind in Delivery.Kind)]
"""The statuses that cancel pending deliveries of some kind."""

_IS_WAITING = Q(claimed_at=None)
_IS_OF_NEW_URL = Q(kind=Delivery.Kind.VERIFICATION, webhook__status=Webhook.Status.ACTIVE, webhook__pending_url__gt="")
_IS_RUNNING = Q(webhook__paused_at=None) | _IS_OF_NEW_URL
_IS_PERMITTED = (
    Q(webhook__deleted_at=None)
    & _IS_RUNNING
    & reduce(or_, (Q(webhook__status=status, kind__in=kinds) for status, kinds in KINDS_BY_STATUS.items()))
)
_IS_IN_GROUP = Q(place__isnull=False) & ~Q(webhook__order=Order.NONE)


def _is_blocked() -> Q:
    return Q(due_at=None) | _IS_IN_GROUP & Q(Exists(QueueEntry.objects.earlier()))


def _is_stopped() -> Q:
    kinds = {
        status: [kind for kind in Delivery.Kind if stop_reason(kind, _State(status))] for status in KINDS_BY_STATUS
    }
    by_status = (Q(webhook__status=status, kind__in=stopped) for status, stopped in kinds.items() if stopped)
    return reduce(or_, by_status, Q(webhook__deleted_at__isnull=False))


def reason_expression(now: datetime) -> models.Case:
    """Return the reason of each entry as an expression, "" if only the limits of workers can hold it.

    The claims of other workers, expired ones too, count as in flight.
    """
    reasons: list[tuple[HoldReason, Q]] = [
        (HoldReason.IN_FLIGHT, ~_IS_WAITING),
        (HoldReason.STOPPED, _is_stopped()),
        (HoldReason.PAUSED, ~_IS_RUNNING),
        (HoldReason.UNVERIFIED, ~_IS_PERMITTED),
        (HoldReason.FILTER_PENDING, Q(filter_at__isnull=False)),
        (HoldReason.ORDERED, _is_blocked()),
        (HoldReason.EXPIRED, Q(expires_at__lte=now)),
        (HoldReason.NOT_DUE, Q(due_at__gt=now)),
        (HoldReason.RATE_LIMITED, Q(webhook__rate_limit__isnull=False, webhook__lane__next_slot_at__gt=now)),
        (HoldReason.UNSIGNED, Q(webhook__lane__unsigned_until__gt=now)),
        (HoldReason.SLOW, Q(webhook__lane__is_fast=False)),
    ]
    cases = [models.When(condition, then=models.Value(reason.value)) for reason, condition in reasons]
    return models.Case(*cases, default=models.Value(""), output_field=models.CharField())


def is_upcoming() -> Q:
    """Return the condition for entries that will be sent, or cancelled as expired, at their due time."""
    return _IS_WAITING & _IS_PERMITTED & ~_is_blocked()
