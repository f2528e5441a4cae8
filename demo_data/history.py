"""Random events, deliveries and attempts of the demo data, in chronological order."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from webhooks_app.conf import retry_policy, settings
from webhooks_app.event_types import registry
from webhooks_app.models import Delivery, DeliveryAttempt, Event, EventReference, Webhook
from webhooks_app.protocol.ids import RANDOM_HEX_DIGITS, first_id_at
from webhooks_app.protocol.json_data import format_time
from webhooks_app.reasons import ReasonText
from webhooks_app.transport.errors import connection_lost, name_unknown, timed_out

from .webhooks import CHANGED_AFTER, Profile, Target

DUE_WITHIN = timedelta(minutes=1)
"""Span after the final deliveries in which the due ones are queued."""

FIRST_ATTEMPT_AFTER = timedelta(milliseconds=20)

REFERENCE_DIGITS = 8

SUCCEEDED = DeliveryAttempt.Result.SUCCEEDED.value


class Answer(NamedTuple):
    message: str = ""
    status: int | None = None
    body: str = ""


ANSWERS: Mapping[str, Answer] = {
    "succeeded": Answer(status=200, body="ok"),
    "http_status": Answer(ReasonText("status_not_200", status=503), 503, "Service unavailable"),
    "timeout": Answer(timed_out(30).message),
    "connection_error": Answer(connection_lost().message),
    "dns_error": Answer(),
}
"""Recorded answers by result."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rows:
    """Rows for one transaction."""

    events: list[Event] = field(default_factory=list)
    references: list[EventReference] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    attempts: list[DeliveryAttempt] = field(default_factory=list)


class Audience(NamedTuple):
    """An event type and an owner, and the webhooks that receive such events."""

    event_type: str
    owner_id: Any
    targets: Sequence[Target]


class Audiences:
    """All audiences of these webhooks. The first owners and event types are the most frequent."""

    def __init__(self, targets: Sequence[Target], owners: Sequence[Any]) -> None:
        self._choices: list[Audience] = []
        weights = []
        for owner_rank, owner in enumerate(owners, 1):
            for type_rank, name in enumerate(registry.emittable_names(), 1):
                if receiving := [target for target in targets if target.receives(owner.pk, name)]:
                    self._choices.append(Audience(name, owner.pk, receiving))
                    weights.append(1 / (owner_rank * type_rank))
        self._cum_weights = list(accumulate(weights))

    def draw(self, chances: random.Random) -> Audience:
        return chances.choices(self._choices, cum_weights=self._cum_weights)[0]


class History:
    """History between ``since`` and ``until``; attempts and bodies exist since ``kept_since``."""

    def __init__(
        self,
        targets: Sequence[Target],
        owners: Sequence[Any],
        *,
        since: datetime,
        until: datetime,
        kept_since: datetime,
        seed: int,
    ) -> None:
        self._since, self._until, self._kept_since = since, until, kept_since
        self._chances = random.Random(seed)  # noqa: S311 - reproducible, not secret
        policy = retry_policy()
        self._max_attempts = policy.max_attempts
        self._waits = list(accumulate((timedelta(0), *policy.delays)))
        self._data = {name: _example(name) for name in registry.emittable_names()}
        verified = [each for each in targets if each.profile.at_once or each.profile.given_up]
        active = [each for each in verified if each.profile.status == Webhook.Status.ACTIVE]
        running = [each for each in active if each.is_running]
        self._before, self._after, self._now = (Audiences(each, owners) for each in (verified, active, running))

    def batches(self, deliveries: int, due: int, size: int) -> Iterator[Rows]:
        """Yield the rows of the final deliveries, then of the due ones, in batches of about ``size`` deliveries."""
        rows, made = Rows(), 0
        while made < deliveries + due:
            limit = deliveries if made < deliveries else deliveries + due
            audience, moment = self._next(made, deliveries, due)
            targets = audience.targets[: limit - made]
            self._add_event(rows, audience._replace(targets=targets), moment, is_due=made >= deliveries)
            made += len(targets)
            if len(rows.deliveries) >= size or made in (deliveries, deliveries + due):
                yield rows
                rows = Rows()

    def _next(self, made: int, deliveries: int, due: int) -> tuple[Audience, datetime]:
        if made >= deliveries:
            return self._now.draw(self._chances), self._until + DUE_WITHIN * ((made - deliveries) / due)
        share = made / deliveries
        audiences = self._before if share < CHANGED_AFTER else self._after
        return audiences.draw(self._chances), self._since + (self._until - self._since) * share

    def _add_event(self, rows: Rows, audience: Audience, moment: datetime, *, is_due: bool) -> None:
        event, references = self._event(audience, moment)
        rows.events.append(event)
        rows.references.extend(EventReference(value=value, event=event) for value in references)
        for target in audience.targets:
            delivery = Delivery(
                id=self._id("dlv", moment),
                event_id=event.pk,
                webhook_id=target.webhook.pk,
                max_attempts=self._max_attempts,
                created_at=moment,
            )
            rows.deliveries.append(delivery)
            if not is_due:
                rows.attempts.extend(self._finish(delivery, target))

    def _event(self, audience: Audience, moment: datetime) -> tuple[Event, Sequence[str]]:
        """Return an event with identifiers of its own in its data, and these references."""
        event_id, name = self._id("evt", moment), audience.event_type
        data, references = self._data[name], []
        for value in registry.get(name).references(registry.get(name).example):
            references.append(f"{value.rpartition('_')[0]}_{event_id[-REFERENCE_DIGITS:]}")
            data = data.replace(json.dumps(value), json.dumps(references[-1]))
        body = f'{{"id":"{event_id}","type":"{name}","created":"{format_time(moment)}","data":{data}}}'
        kept = body if moment >= self._kept_since else ""
        return Event(id=event_id, type=name, owner_id=audience.owner_id, body=kept, created_at=moment), references

    def _finish(self, delivery: Delivery, target: Target) -> Sequence[DeliveryAttempt]:
        """Set a random outcome of a delivery and return its attempts."""
        if target.cancelled_since and delivery.created_at >= target.cancelled_since:
            delivery.state, delivery.state_reason = Delivery.State.CANCELLED, "webhook_disabled"
            delivery.finished_at = target.webhook.status_changed_at
            return ()
        profile = target.profile_at(delivery.created_at, self._until)
        results = self._results(profile)
        spans = [self._duration(profile, result) for result in results]
        delivery.attempt_count, delivery.last_result = len(results), results[-1]
        delivery.state = Delivery.State.SUCCEEDED if results[-1] == SUCCEEDED else Delivery.State.GIVEN_UP
        starts = [self._started_at(delivery, number, spans) for number in range(1, len(results) + 1)]
        delivery.finished_at = starts[-1] + spans[-1]
        if delivery.created_at < self._kept_since:
            return ()
        rows = zip(results, starts, spans, strict=True)
        return [self._attempt(delivery, target, number, *row) for number, row in enumerate(rows, 1)]

    def _duration(self, profile: Profile, result: str) -> timedelta:
        if result == "timeout":
            return timedelta(seconds=settings.TIMEOUT_SECONDS)
        return timedelta(milliseconds=int(profile.milliseconds * (0.5 + self._chances.random())))

    def _results(self, profile: Profile) -> list[str]:
        """Return random results of the attempts."""
        share = self._chances.random()
        if share < profile.at_once:
            return [SUCCEEDED]
        if share < profile.at_once + profile.later:
            most = min(3, self._max_attempts - 1)
            return [profile.failure] * self._chances.randint(min(1, most), most) + [SUCCEEDED]
        return [profile.failure] * self._max_attempts

    def _attempt(
        self, delivery: Delivery, target: Target, number: int, result: str, started_at: datetime, duration: timedelta
    ) -> DeliveryAttempt:
        answer, host = ANSWERS[result], urlsplit(target.webhook.url).hostname or ""
        return DeliveryAttempt(
            delivery_id=delivery.pk,
            number=number,
            result=result,
            message=name_unknown(host).message if result == "dns_error" else answer.message,
            started_at=started_at,
            duration_ms=duration // timedelta(milliseconds=1),
            url=target.webhook.url,
            timestamp=int(started_at.timestamp()),
            signatures=f"sha256={self._chances.getrandbits(256):064x}",
            response_status=answer.status,
            response_headers=[["Content-Type", "text/plain"]] if answer.status else [],
            response_body=answer.body,
            peer="203.0.113.7" if answer.status else "",
        )

    def _started_at(self, delivery: Delivery, number: int, spans: Sequence[timedelta]) -> datetime:
        earlier = sum(spans[: number - 1], timedelta())
        return delivery.created_at + FIRST_ATTEMPT_AFTER + self._waits[number - 1] + earlier

    def _id(self, prefix: str, moment: datetime) -> str:
        return (
            f"{first_id_at(prefix, moment)[:-RANDOM_HEX_DIGITS]}{self._chances.getrandbits(80):0{RANDOM_HEX_DIGITS}x}"
        )


def _example(event_type: str) -> str:
    return json.dumps(dict(registry.get(event_type).example), separators=(",", ":"))
