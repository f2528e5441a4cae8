"""Rows as a service has them after some weeks, to look at and to measure with; nothing of it is ever sent."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Any

from django.contrib.auth import get_user_model
from django.db import connections, router, transaction

from ..conf import settings
from ..event_types import registry
from ..ids import first_id_at
from ..models import Delivery, DeliveryAttempt, Event, Webhook
from ..models.delivery import configured_max_attempts
from ..times import format_time
from .demo_counting import count_deliveries

SLOTS = 1000
"""An event's digest chooses one of so many: a webhook that gets more has more of them."""

OF_ALL = 65_536
"""Shares are given in so many parts, since a digest's four digits choose among them."""

ANSWERS: Mapping[str, tuple[str, int | None]] = {
    "succeeded": ("", 200),
    "http_status": ("Answered with status 503.", 503),
    "timeout": ("The receiver sent no complete answer within 30 seconds.", None),
    "connection_error": (
        "No connection could be opened. Check that the receiver runs and its port is reachable.",
        None,
    ),
    "dns_error": ("The name could not be resolved. Check that it exists in the public DNS.", None),
}
"""What is logged of an attempt by its result: the message and the status."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Profile:
    """How a webhook fares. The shares are of its deliveries; what they leave was cancelled."""

    name: str
    at_once: float = 0.0
    later: float = 0.0
    given_up: float = 0.0
    failure: str = "http_status"
    milliseconds: int = 60
    status: str = Webhook.Status.ACTIVE
    reason: str = ""
    is_paused: bool = False


HEALTHY = Profile(name="healthy", at_once=0.995, later=0.004, given_up=0.001)
PROFILES = (
    HEALTHY,
    Profile(name="flaky", at_once=0.72, later=0.25, given_up=0.03, milliseconds=180),
    Profile(name="slow", at_once=0.95, later=0.04, given_up=0.01, failure="timeout", milliseconds=4000),
    Profile(name="down", at_once=0.06, later=0.04, given_up=0.9, failure="connection_error", milliseconds=300),
    HEALTHY,
    Profile(
        name="disabled", at_once=0.3, later=0.1, given_up=0.3, status=Webhook.Status.DISABLED, reason="Under repair."
    ),
    Profile(name="unverified", status=Webhook.Status.PENDING),
    Profile(name="unknown", given_up=1.0, failure="dns_error", milliseconds=20),
    Profile(name="failed", status=Webhook.Status.FAILED, reason="No handshake passed in 4 attempts."),
    Profile(name="paused", at_once=0.97, later=0.02, given_up=0.01, is_paused=True),
    HEALTHY,
    HEALTHY,
)
"""Dealt out to the webhooks in turn, so that a dozen of them have every state."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """A webhook that deliveries go to."""

    webhook: Webhook
    owner_id: Any
    profile: Profile

    @property
    def bounds(self) -> tuple[int, int, int]:
        """Up to which of OF_ALL an outcome is: at once, later, given up."""
        shares = accumulate((self.profile.at_once, self.profile.later, self.profile.given_up))
        at_once, later, given_up = (round(share * OF_ALL) for share in shares)
        return at_once, later, given_up


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that the rows follow from: the same plan makes the same rows on every database."""

    deliveries: int
    since: datetime
    until: datetime
    seed: int
    slots: Sequence[Target]
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
        return int(self.since.timestamp() * 1000)

    @property
    def span_ms(self) -> int:
        return int((self.until - self.since).total_seconds() * 1000)

    @property
    def waits_ms(self) -> list[int]:
        """How long after the event each attempt begins, the time of those before it not counted."""
        return [20, *(20 + int(total * 1000) for total in accumulate(settings.RETRY_DELAYS_SECONDS))]


def make_plan(*, deliveries: int, owners: int, webhooks: int, days: float, seed: int, now: datetime) -> Plan:
    """Make the accounts and webhooks, and return what their deliveries follow from."""
    since = now - timedelta(days=days)
    targets = _make_webhooks(_make_owners(owners), webhooks, since, now)
    busy = [target for target in targets if sum(target.bounds)]
    chances = random.Random(seed)  # noqa: S311 - demo data is to be the same each time
    slots = chances.choices(busy, weights=[1 / rank for rank in range(1, len(busy) + 1)], k=SLOTS)
    return Plan(deliveries=deliveries, since=since, until=now, seed=seed, slots=slots)


def make_rows(plan: Plan, *, chunk: int, progress: Callable[[int], None]) -> None:
    """Make the plan's events, deliveries and attempts, so many deliveries to a transaction."""
    from .demo_sql import DemoSql  # noqa: PLC0415 - it needs what is defined here

    using = router.db_for_write(Delivery)
    is_postgresql = connections[using].vendor == "postgresql"
    insert = DemoSql(plan, using).insert if is_postgresql else lambda first, last: insert_portably(plan, first, last)
    for first in range(0, plan.deliveries, chunk):
        last = min(first + chunk, plan.deliveries)
        with transaction.atomic(using=using):
            insert(first, last)
        progress(last - first)
    webhook_ids = {target.webhook.pk for target in plan.slots}
    count_deliveries(using, webhook_ids, plan.since, plan.until)
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


def _make_owners(count: int) -> list[Any]:
    accounts: Any = get_user_model()
    owners = []
    for number in range(1, count + 1):
        owner, is_new = accounts._default_manager.get_or_create(**{accounts.USERNAME_FIELD: f"demo-{number}"})
        if is_new:
            owner.set_unusable_password()
            owner.save()
        owners.append(owner)
    return owners


def _make_webhooks(owners: Sequence[Any], count: int, since: datetime, now: datetime) -> list[Target]:
    names = list(registry.emittable_names())
    targets = []
    for number in range(count):
        profile, owner = PROFILES[number % len(PROFILES)], owners[number % len(owners)]
        is_changed = profile.status != Webhook.Status.ACTIVE
        webhook = Webhook(
            # The last of each dozen is the platform's.
            owner=None if number % len(PROFILES) == len(PROFILES) - 1 else owner,
            url=f"https://{profile.name}-{number + 1}.demo.invalid/webhooks",
            event_types=names,
            description=f"Demo: {profile.name}",
            status=profile.status,
            status_reason=profile.reason,
            status_changed_at=since + (now - since) * (0.7 if is_changed else 0),
            paused_at=now - (now - since) * 0.1 if profile.is_paused else None,
            created_at=since,
        )
        webhook.secret = f"whsec_demo_{number:06}_nothing_is_sent"
        targets.append(Target(webhook=webhook, owner_id=owner.pk, profile=profile))
    Webhook.objects.bulk_create([target.webhook for target in targets], batch_size=500)
    return targets


def _event_and_delivery(plan: Plan, number: int) -> tuple[Event, Delivery]:
    digest = digest_of(plan, number)
    target = _target(plan, digest)
    moment = _moment(plan.since_ms + number * plan.span_ms // plan.deliveries)
    name, data = plan.types[int(digest[4:8], 16) % len(plan.types)]
    digits = first_id_at("", moment)[1:13] + digest[12:]
    body = f'{{"id":"evt_{digits}","type":"{name}","created":"{format_time(moment)}","data":{data}}}'
    count, state = _outcome(plan, target, digest)
    finished_at = moment + timedelta(
        milliseconds=_begins_after(plan, target, digest, count) + _duration(target, digest)
    )
    return (
        Event(id=f"evt_{digits}", type=name, owner_id=target.owner_id, body=body, created_at=moment),
        Delivery(
            id=f"dlv_{digits}",
            event_id=f"evt_{digits}",
            webhook_id=target.webhook.pk,
            state=state,
            state_reason="webhook_disabled" if state == Delivery.State.CANCELLED else "",
            attempt_count=count,
            last_result=_last_result(target, state),
            max_attempts=plan.max_attempts,
            next_attempt_at=None,
            created_at=moment,
            finished_at=finished_at,
        ),
    )


def _attempts(plan: Plan, delivery: Delivery, number: int) -> Iterator[DeliveryAttempt]:
    digest = digest_of(plan, number)
    target = _target(plan, digest)
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


def _target(plan: Plan, digest: str) -> Target:
    return plan.slots[int(digest[:4], 16) % SLOTS]


def _outcome(plan: Plan, target: Target, digest: str) -> tuple[int, str]:
    """Return how many attempts were made, and the state."""
    part, (at_once, later, given_up) = int(digest[8:12], 16), target.bounds
    if part < at_once:
        return 1, Delivery.State.SUCCEEDED
    if part < later:
        return min(plan.max_attempts, 2 + int(digest[12:16], 16) % 3), Delivery.State.SUCCEEDED
    return (plan.max_attempts, Delivery.State.GIVEN_UP) if part < given_up else (0, Delivery.State.CANCELLED)


def _last_result(target: Target, state: str) -> str:
    if state == Delivery.State.CANCELLED:
        return ""
    return "succeeded" if state == Delivery.State.SUCCEEDED else target.profile.failure


def _begins_after(plan: Plan, target: Target, digest: str, attempt: int) -> int:
    """Return the milliseconds between the event and the beginning of an attempt; before the first of none, a few."""
    index = max(0, attempt - 1)
    return plan.waits_ms[index] + index * _duration(target, digest)


def _duration(target: Target, digest: str) -> int:
    return target.profile.milliseconds * (OF_ALL // 2 + int(digest[16:20], 16)) // OF_ALL


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=ms)
