"""Rows as a service has them after some weeks, to look at and to measure with.

Nothing of it is sent, unless some of it is asked to be due; and then no such receiver exists.
"""

from __future__ import annotations

import hashlib
import json
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
from .demo_turns import Era, Turn, make_eras

DUE_WITHIN_MS = 60_000
"""How long after all others what is due was queued."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that the rows follow from: the same plan makes the same rows on every database."""

    deliveries: int
    """How many of the deliveries are final."""
    due: int = 0
    """How many more are waiting to be sent."""
    since: datetime
    until: datetime
    kept_since: datetime
    """Since when there are bodies and attempts; those before are pruned."""
    seed: int
    eras: Sequence[Era]
    types: Sequence[tuple[str, str]] = field(
        default_factory=lambda: [(name, _data(name)) for name in registry.emittable_names()]
    )
    """Names and the JSON of their data."""
    max_attempts: int = field(default_factory=configured_max_attempts)

    def era(self, number: int) -> Era:
        return next(era for era in self.eras if number < era.until)

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
    accounts = make_owners(owners)
    targets = make_webhooks(accounts, webhooks, seed=seed, since=since, now=now)
    return Plan(
        deliveries=deliveries,
        due=due,
        since=since,
        until=now,
        kept_since=_kept_since(),
        seed=seed,
        eras=make_eras(targets, [account.pk for account in accounts], deliveries, due, seed),
    )


def make_rows(plan: Plan, *, chunk: int, progress: Callable[[int], None]) -> None:
    """Make the plan's events, deliveries and attempts, so many deliveries to a transaction, and count them."""
    insert_rows(plan, chunk=chunk, progress=progress)
    if (since := max(plan.since, _kept_since())) < plan.until:
        webhook_ids = {turn.target.webhook.pk for era in plan.eras for turn in era.turns}
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
        era = plan.era(number)
        turn = era.turn(number)
        if turn.place == 0:
            events.append(_event(plan, turn, number))
        deliveries.append(_delivery(plan, era, number))
        attempts += _attempts(plan, turn.target, deliveries[-1], digest_of(plan, number))
    for model, rows in ((Event, events), (Delivery, deliveries), (DeliveryAttempt, attempts)):
        model._default_manager.using(using).bulk_create(rows, batch_size=500)  # type: ignore[arg-type]


def digest_of(plan: Plan, number: int) -> str:
    """Return 32 hexadecimal digits from which everything about a delivery follows."""
    return hashlib.md5(f"{plan.seed}:{number}".encode(), usedforsecurity=False).hexdigest()


def _kept_since() -> datetime:
    """Return since when attempts are kept, and are so for the hour whose counting begins now."""
    return timezone.now() - timedelta(days=settings.ATTEMPT_RETENTION_DAYS, hours=-1)


def _data(event_type: str) -> str:
    return json.dumps(dict(registry.get(event_type).example), separators=(",", ":"))


def _digits(moment: datetime, digest: str) -> str:
    """Return those of an identifier."""
    return first_id_at("", moment)[1:13] + digest[12:]


def _event(plan: Plan, turn: Turn, number: int) -> Event:
    moment = _moment(_queued_at_ms(plan, number))
    digits = _digits(moment, digest_of(plan, number))
    name, data = plan.types[turn.type_index]
    body = f'{{"id":"evt_{digits}","type":"{name}","created":"{format_time(moment)}","data":{data}}}'
    return Event(
        id=f"evt_{digits}",
        type=name,
        owner_id=turn.owner_id,
        body=body if moment >= _moment(plan.kept_since_ms) else "",
        created_at=moment,
    )


def _delivery(plan: Plan, era: Era, number: int) -> Delivery:
    turn, digest = era.turn(number), digest_of(plan, number)
    first = number - turn.place
    moment = _moment(_queued_at_ms(plan, first))
    count, state = (0, Delivery.State.PENDING.value) if era.is_due else _outcome(plan, turn.target, digest)
    took = timedelta(milliseconds=_begins_after(plan, turn.target, digest, count) + _duration(turn.target, digest))
    return Delivery(
        id=f"dlv_{_digits(moment, digest)}",
        event_id=f"evt_{_digits(moment, digest_of(plan, first))}",
        webhook_id=turn.target.webhook.pk,
        state=state,
        state_reason="webhook_disabled" if state == Delivery.State.CANCELLED else "",
        attempt_count=count,
        last_result=_last_result(turn.target, state),
        max_attempts=plan.max_attempts,
        next_attempt_at=moment if era.is_due else None,
        created_at=moment,
        finished_at=None if era.is_due else moment + took,
    )


def _attempts(plan: Plan, target: Target, delivery: Delivery, digest: str) -> Iterator[DeliveryAttempt]:
    if delivery.created_at < _moment(plan.kept_since_ms):
        return
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


def _queued_at_ms(plan: Plan, number: int) -> int:
    if number < plan.deliveries:
        return plan.since_ms + number * plan.span_ms // plan.deliveries
    return plan.since_ms + plan.span_ms + (number - plan.deliveries) * DUE_WITHIN_MS // plan.due


def _outcome(plan: Plan, target: Target, digest: str) -> tuple[int, str]:
    """Return how many attempts were made, and the state."""
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
