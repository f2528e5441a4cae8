"""The reason why a delivery is not sent now, as a rule for one delivery and in SQL."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from django.db import models
from django.db.models import Case, Count, Exists, Min, Q, Subquery, Value, When
from django.utils.translation import gettext_lazy as _

from ..conf import settings
from .delivery import Delivery
from .fields import IdField
from .lane import FAST_SECONDS
from .order import Order
from .queue import QueueEntry
from .rate_limit import LONG_AGO, RateLimit
from .webhook import Webhook

UNVERIFIED_KINDS = (Delivery.Kind.VERIFICATION, Delivery.Kind.TEST)
"""Kinds that are sent to an unverified URL: the handshake itself, and manual tests."""


class HoldReason(models.TextChoices):
    """The reasons in order of precedence. The first that applies is returned."""

    FINAL = "final", _("finished")
    IN_FLIGHT = "in_flight", _("in flight")
    LOST = "lost", _("worker lost")
    STOPPED = "stopped", _("webhook stopped")
    PAUSED = "paused", _("paused")
    UNVERIFIED = "unverified", _("waiting for verification")
    EXPIRED = "expired", _("expired")
    ORDERED = "ordered", _("behind an earlier delivery")
    ADDRESS_BUSY = "address_busy", _("address busy")
    NOT_DUE = "not_due", _("not due")
    RATE_LIMITED = "rate_limited", _("rate limit reached")
    WITHHELD = "withheld", _("rate limit nearly reached")
    CONCURRENCY = "concurrency", _("all requests in flight")
    UNSIGNED = "unsigned", _("secret not readable")
    SLOW = "slow", _("slow receiver")


STANDING = (HoldReason.STOPPED, HoldReason.PAUSED, HoldReason.UNVERIFIED)
"""Reasons in the state of the webhook. They do not pass with time."""


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
    return (
        _hold_by_claim(delivery, now)
        or _hold_by_webhook(delivery)
        or _hold_by_expiry(delivery, now)
        or _hold_by_order(delivery, blocker)
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
        if hold is None or hold.reason == HoldReason.SLOW
    }
    if not free:
        return holds
    loads = _loads(deliveries[0].alias, free, now)
    return [
        hold_of(delivery, now=now, load=loads.get(delivery.webhook_id, NO_LOAD))
        if delivery.webhook_id in free
        else hold
        for delivery, hold in zip(deliveries, holds, strict=True)
    ]


class WebhookState(Protocol):
    """The state of a webhook: its row, or the values loaded by a worker."""

    @property
    def status(self) -> str: ...
    @property
    def paused_at(self) -> datetime | None: ...
    @property
    def deleted_at(self) -> datetime | None: ...


def standing_reason(kind: str, webhook: WebhookState) -> HoldReason | None:
    """Return the reason why this kind waits for a change of the webhook, or None."""
    if stop_reason(kind, webhook):
        return HoldReason.STOPPED
    if webhook.paused_at is not None:
        return HoldReason.PAUSED
    if webhook.status != Webhook.Status.ACTIVE and kind not in UNVERIFIED_KINDS:
        return HoldReason.UNVERIFIED
    return None


def stop_reason(kind: str, webhook: WebhookState) -> str:
    """Return the reason for cancelling pending deliveries of this kind, or "" if they are not cancelled."""
    if webhook.deleted_at is not None:
        return "webhook_deleted"
    if webhook.status == Webhook.Status.DISABLED:
        return "webhook_disabled"
    if webhook.status == Webhook.Status.FAILED and kind != Delivery.Kind.TEST:
        return "webhook_failed"
    return ""


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


def blockers_of(deliveries: Sequence[Delivery]) -> dict[str, str]:
    """Return the first delivery of the group for each delivery that waits for it."""
    ordered = [each for each in deliveries if each.entry is not None and each.entry.place is not None]
    ids = [each.pk for each in ordered if each.webhook.order != Order.NONE]
    if not ids:
        return {}
    entries = QueueEntry.objects.using(ordered[0].alias)
    first = Subquery(entries.earlier().order_by("place").values("pk")[:1], output_field=IdField(prefix="dlv"))
    rows = entries.filter(pk__in=ids).annotate(blocker=first).values_list("pk", "blocker")
    return {pk: blocker for pk, blocker in rows if blocker}


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
    return delivery.kind in UNVERIFIED_KINDS and entry is not None and entry.attempt == 0


def _hold_by_keys(webhook: Webhook, now: datetime) -> Hold | None:
    lane = webhook._state.fields_cache.get("lane")  # loaded with the webhook, or by the preceding rules
    if lane is None or lane.unsigned_until is None or lane.unsigned_until <= now:
        return None
    return Hold(reason=HoldReason.UNSIGNED, until=lane.unsigned_until)


def _hold_by_rate(delivery: Delivery, now: datetime) -> Hold | None:
    limit = rate_limit_of(delivery.webhook)
    if limit is None:
        return None
    allowance = limit.allowance(now)
    if allowance == 0:
        return Hold(reason=HoldReason.RATE_LIMITED, until=limit.next_slot_at)
    if allowance < 2 and delivery.kind == Delivery.Kind.RETRY_NOTICE:
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


def rate_limit_of(webhook: Webhook) -> RateLimit | None:
    """Return the rate limit of a webhook with its next free slot, or None without a limit."""
    if webhook.rate_limit is None:
        return None
    return RateLimit(per_second=webhook.rate_limit, next_slot_at=webhook.next_slot_at or LONG_AGO)


def in_flight_limit(webhook: Webhook) -> int:
    """Return the maximum number of deliveries in flight to a webhook, over all workers."""
    return webhook.max_in_flight or settings.MAX_IN_FLIGHT_PER_WEBHOOK


def _loads(using: str, webhook_ids: Collection[str], now: datetime) -> dict[str, Load]:
    """Return the load by webhook. Webhooks without claims are omitted."""
    claimed = QueueEntry.objects.using(using).filter(_is_leased(now), webhook__in=webhook_ids)
    rows = claimed.order_by().values_list("webhook_id").annotate(Count("pk"), Min("claimed_at"))
    return {webhook_id: Load(number, since) for webhook_id, number, since in rows}


# The same rule in SQL, for rows of QueueEntry, except WITHHELD, CONCURRENCY and SLOW, which are arithmetic or differ
# between workers.

_IS_WAITING = Q(claimed_at=None)
_IS_STOPPED = (
    Q(webhook__deleted_at__isnull=False)
    | Q(webhook__status=Webhook.Status.DISABLED)
    | Q(webhook__status=Webhook.Status.FAILED) & ~Q(kind=Delivery.Kind.TEST)
)
_IS_PAUSED = Q(webhook__paused_at__isnull=False)
_IS_UNVERIFIED = ~Q(webhook__status=Webhook.Status.ACTIVE) & ~Q(kind__in=UNVERIFIED_KINDS)
_IS_IN_GROUP = Q(place__isnull=False) & ~Q(webhook__order=Order.NONE)


def _is_blocked() -> Q:
    return Q(due_at=None) | _IS_IN_GROUP & Q(Exists(QueueEntry.objects.earlier()))


def is_held() -> Q:
    """Return the condition for entries that wait for a change of their webhook, with a reason in ``STANDING``."""
    return _IS_WAITING & (_IS_STOPPED | _IS_PAUSED | _IS_UNVERIFIED)


def is_upcoming() -> Q:
    """Return the condition for entries that will be sent, or cancelled as expired, at their due time."""
    return _IS_WAITING & ~_IS_STOPPED & ~_IS_PAUSED & ~_IS_UNVERIFIED & ~_is_blocked()


def is_due(now: datetime) -> Q:
    """Return the condition for due entries. Only limits of their webhook can hold them."""
    return is_upcoming() & Q(due_at__lte=now) & ~_is_expired(now)


def is_sendable(now: datetime) -> Q:
    """Return the condition for due entries below the rate limit of their webhook."""
    return is_due(now) & ~_is_rate_limited(now)


def hold_reason(now: datetime) -> Case:
    """Return the expression for the reason, "" for a sendable entry."""
    conditions = {
        HoldReason.IN_FLIGHT: _is_leased(now),
        HoldReason.LOST: ~_IS_WAITING,
        HoldReason.STOPPED: _IS_STOPPED,
        HoldReason.PAUSED: _IS_PAUSED,
        HoldReason.UNVERIFIED: _IS_UNVERIFIED,
        HoldReason.EXPIRED: _is_expired(now),
        HoldReason.ORDERED: _is_blocked(),
        HoldReason.ADDRESS_BUSY: Q(due_at__gt=now, kind__in=UNVERIFIED_KINDS, attempt=0),
        HoldReason.NOT_DUE: Q(due_at__gt=now),
        HoldReason.RATE_LIMITED: _is_rate_limited(now),
        HoldReason.UNSIGNED: Q(webhook__lane__unsigned_until__gt=now),
    }
    whens = [When(condition, then=Value(reason.value)) for reason, condition in conditions.items()]
    return Case(*whens, default=Value(""), output_field=models.CharField())


def _is_leased(now: datetime) -> Q:
    return Q(claimed_at__isnull=False, leased_until__gt=now)


def _is_expired(now: datetime) -> Q:
    return Q(expires_at__lte=now)


def _is_rate_limited(now: datetime) -> Q:
    return Q(webhook__rate_limit__isnull=False, webhook__lane__next_slot_at__gt=now)
