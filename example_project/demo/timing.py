"""Delays of requests, measured at the receiver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from webhooks_app.receiver.local import Received
from webhooks_app.retry import SpecificationPolicy


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """All requests of one message to one receiver, in order. ``first_due_at`` is the time of the event."""

    receiver: str
    requests: Sequence[Received]
    first_due_at: datetime

    @property
    def type(self) -> str:
        return self.requests[0].type

    @property
    def statuses(self) -> tuple[int, ...]:
        return tuple(request.status for request in self.requests)

    @property
    def late_seconds(self) -> tuple[float, ...]:
        """Delay of each request: of the first after the event, of a retry after its scheduled time."""
        return tuple(
            (request.at - due).total_seconds() for request, due in zip(self.requests, self._due(), strict=True)
        )

    def _due(self) -> Iterator[datetime]:
        yield self.first_due_at
        for number, failed in enumerate(self.requests[:-1]):
            # Requests after the last retry of the schedule count as late since then.
            delays = SpecificationPolicy.delays_seconds
            delay = delays[min(number, len(delays) - 1)]
            yield failed.at + timedelta(seconds=delay)


def series(receiver: str, requests: Sequence[Received], registered_at: datetime) -> list[Series]:
    """Group a receiver's genuine requests by message, ordered by first request. Handshakes have no id."""
    grouped: dict[str, list[Received]] = {}
    for request in requests:
        if not request.problem:
            grouped.setdefault(request.event_id, []).append(request)
    return [
        Series(receiver=receiver, requests=group, first_due_at=_created_at(group[0]) or registered_at)
        for group in grouped.values()
    ]


def _created_at(request: Received) -> datetime | None:
    created = request.message.get("created")
    return datetime.fromisoformat(created) if created else None
