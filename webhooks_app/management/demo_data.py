"""Rows as a service has them after some weeks, to look at and to measure with.

Nothing of it is sent, unless some of it is asked to be due; and then no such receiver exists.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import accumulate

from django.db import connections, router, transaction
from django.utils import timezone

from ..conf import settings
from ..event_types import registry
from ..ids import first_id_at
from ..models import Delivery, DeliveryAttempt, Event
from ..models.delivery import configured_max_attempts
from ..times import format_time
from .demo_cast import ANSWERS, OF_ALL, Target, make_owners, make_webhooks
from .demo_counting import count_deliveries

SLOTS = 1000
"""An event's digest chooses one of so many: a webhook that gets more has more of them."""

DUE_WITHIN_MS = 60_000
"""How long after all others what is due was queued."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that the rows follow from: the same plan makes the same rows on every database."""

    deliveries: int
    """How many of the deliveries are final; each is of an event of its own."""
    due: int = 0
    """How many more are waiting to be sent."""
    since: datetime
    until: datetime
    kept_since: datetime
    """Since when there are bodies and attempts; those before are pruned."""
    seed: int
    slots: Sequence[Target]
    due_slots: Sequence[Target] = ()
    types: Sequence[tuple[str, str]] = field(
        default_factory=lambda: [
            (name, json.dumps(dict(registry.get(name).example), separators=(",", ":")))
            for name in registry.emittable_names()
        ]
    )
    """Names and the JSON of their data."""
    max_attempts: int = field(default_factory=configured_max_attempts)

    @property
    def since_ms(self) -> int:
        return _milliseconds(self.since)

    @property
    def kept_since_ms(self) -> int:
        return _milliseconds(self.kept_since)

    @property
    def span_ms(self) -> int:
        return int((self.until - self.since).total_seconds() * 1000)

    @property
    def waits_ms(self) -> list[int]:
        """How long after the event each attempt begins, the time of those before it not counted."""
        return [20, *(20 + int(total * 1000) for total in accumulate(settings.RETRY_DELAYS_SECONDS))]


def make_plan(
    *, deliveries: int, due: int = 0, owners: int, webhooks: int, days: float, seed: int, now: datetime
) -> Plan:
    """Make the accounts and webhooks, and return what their deliveries follow from."""
    since = now - timedelta(days=days)
    targets = make_webhooks(make_owners(owners), webhooks, since, now)
    return Plan(
        deliveries=deliveries,
        due=due,
        since=since,
        until=now,
        kept_since=_kept_since(),
        seed=seed,
        slots=_slots([target for target in targets if sum(target.bounds)], seed),
        due_slots=_slots([target for target in targets if target.is_sent_to], seed),
    )


def make_rows(plan: Plan, *, chunk: int, progress: Callable[[int], None]) -> None:
    """Make the plan's events, deliveries and attempts, so many deliveries to a transaction, and count them."""
    insert_rows(plan, chunk=chunk, progress=progress)
    if (since := max(plan.since, _kept_since())) < plan.until:
        webhook_ids = {target.webhook.pk for target in plan.slots}
        count_deliveries(router.db_for_write(Delivery), webhook_ids, since, plan.until)


def insert_rows(plan: Plan, *, chunk: int, progress: Callable[[int], None]) -> None:
    from .demo_sql import DemoSql  # noqa: PLC0415 - it needs what is defined here

    using = router.db_for_write(Delivery)
    is_postgresql = connections[using].vendor == "postgresql"
    insert = DemoSql(plan, using).insert if is_postgresql else lambda first, last: insert_portably(plan, first, last)
    total = plan.deliveries + plan.due
    for first in range(0, total, chunk):
        last = min(first + chunk, total)
        with transaction.atomic(using=using):
            insert(first, last)
        progress(last - first)
    if is_postgresql:
        with connections[using].cursor() as cursor:
            for model in (Event, Delivery, DeliveryAttempt):
                cursor.execute(f"ANALYZE {connections[using].ops.quote_name(model._meta.db_table)}")


def insert_portably(plan: Plan, first: int, last: int) -> None:
    """Insert the rows of these deliveries, as every database can."""
    using = router.db_for_write(Delivery)
    events: list[Event] = []
    deliveries: list[Delivery] = []
    attempts: list[DeliveryAttempt] = []
    for number in range(first, last):
        event, delivery = _event_and_delivery(plan, number)
        events.append(event)
        deliveries.append(delivery)
        attempts += _attempts(plan, delivery, number)
    for model, rows in ((Event, events), (Delivery, deliveries), (DeliveryAttempt, attempts)):
        model._default_manager.using(using).bulk_create(rows, batch_size=500)  # type: ignore[arg-type]


def digest_of(plan: Plan, number: int) -> str:
    """Return 32 hexadecimal digits from which everything about a delivery follows."""
    return hashlib.md5(f"{plan.seed}:{number}".encode(), usedforsecurity=False).hexdigest()


def _kept_since() -> datetime:
    """Return since when attempts are kept, and are so for the hour whose counting begins now."""
    return timezone.now() - timedelta(days=settings.ATTEMPT_RETENTION_DAYS, hours=-1)


def _slots(targets: Sequence[Target], seed: int) -> list[Target]:
    """Return the targets so that the first gets most, and each next one less."""
    chances = random.Random(seed)  # noqa: S311 - demo data is to be the same each time
    return chances.choices(targets, weights=[1 / rank for rank in range(1, len(targets) + 1)], k=SLOTS)


def _event_and_delivery(plan: Plan, number: int) -> tuple[Event, Delivery]:
    digest = digest_of(plan, number)
    target = _target(plan, number, digest)
    moment = _moment(_queued_at_ms(plan, number))
    name, data = plan.types[int(digest[4:8], 16) % len(plan.types)]
    digits = first_id_at("", moment)[1:13] + digest[12:]
    body = f'{{"id":"evt_{digits}","type":"{name}","created":"{format_time(moment)}","data":{data}}}'
    count, state = _outcome(plan, target, number, digest)
    is_due = state == Delivery.State.PENDING
    took = timedelta(milliseconds=_begins_after(plan, target, digest, count) + _duration(target, digest))
    return (
        Event(
            id=f"evt_{digits}",
            type=name,
            owner_id=target.owner_id,
            body=body if moment >= _moment(plan.kept_since_ms) else "",
            created_at=moment,
        ),
        Delivery(
            id=f"dlv_{digits}",
            event_id=f"evt_{digits}",
            webhook_id=target.webhook.pk,
            state=state,
            state_reason="webhook_disabled" if state == Delivery.State.CANCELLED else "",
            attempt_count=count,
            last_result=_last_result(target, state),
            max_attempts=plan.max_attempts,
            next_attempt_at=moment if is_due else None,
            created_at=moment,
            finished_at=None if is_due else moment + took,
        ),
    )


def _attempts(plan: Plan, delivery: Delivery, number: int) -> Iterator[DeliveryAttempt]:
    if delivery.created_at < _moment(plan.kept_since_ms):
        return
    digest = digest_of(plan, number)
    target = _target(plan, number, digest)
    for attempt in range(1, delivery.attempt_count + 1):
        is_last_good = attempt == delivery.attempt_count and delivery.state == Delivery.State.SUCCEEDED
        result = "succeeded" if is_last_good else target.profile.failure
        message, status = ANSWERS[result]
        started_at = delivery.created_at + timedelta(milliseconds=_begins_after(plan, target, digest, attempt))
        yield DeliveryAttempt(
            id=f"att_{first_id_at('', started_at)[1:13]}{attempt:02x}{digest[14:]}",
            delivery_id=delivery.pk,
            number=attempt,
            result=result,
            message=message,
            started_at=started_at,
            duration_ms=_duration(target, digest),
            url=target.webhook.url,
            timestamp=int(started_at.timestamp()),
            signature=f"sha256={digest}{digest}",
            response_status=status,
            response_headers=[["Content-Type", "text/plain"]] if status else [],
            response_body={200: "ok", 503: "Service unavailable"}.get(status or 0, ""),
            peer="203.0.113.7" if status else "",
        )


def _target(plan: Plan, number: int, digest: str) -> Target:
    slots = plan.slots if number < plan.deliveries else plan.due_slots
    return slots[int(digest[:4], 16) % SLOTS]


def _queued_at_ms(plan: Plan, number: int) -> int:
    if number < plan.deliveries:
        return plan.since_ms + number * plan.span_ms // plan.deliveries
    return plan.since_ms + plan.span_ms + (number - plan.deliveries) * DUE_WITHIN_MS // plan.due


def _outcome(plan: Plan, target: Target, number: int, digest: str) -> tuple[int, str]:
    """Return how many attempts were made, and the state."""
    if number >= plan.deliveries:
        return 0, Delivery.State.PENDING
    part, (at_once, later, given_up) = int(digest[8:12], 16), target.bounds
    if part < at_once:
        return 1, Delivery.State.SUCCEEDED
    if part < later:
        return min(plan.max_attempts, 2 + int(digest[12:16], 16) % 3), Delivery.State.SUCCEEDED
    return (plan.max_attempts, Delivery.State.GIVEN_UP) if part < given_up else (0, Delivery.State.CANCELLED)


def _last_result(target: Target, state: str) -> str:
    if state == Delivery.State.SUCCEEDED:
        return "succeeded"
    return target.profile.failure if state == Delivery.State.GIVEN_UP else ""


def _begins_after(plan: Plan, target: Target, digest: str, attempt: int) -> int:
    """Return the milliseconds between the event and the beginning of an attempt; before the first of none, a few."""
    index = max(0, attempt - 1)
    return plan.waits_ms[index] + index * _duration(target, digest)


def _duration(target: Target, digest: str) -> int:
    return target.profile.milliseconds * (OF_ALL // 2 + int(digest[16:20], 16)) // OF_ALL


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=ms)
