"""When requests came, held against when they were due: seen from the receiver alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from webhooks_app.receiver.local import Received
from webhooks_app.retry import SpecificationPolicy


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """All requests of one message to one receiver, in order; ``first_due_at`` is when it came to be."""

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
        """How late each request came: the first after the happening, a retry after its delay."""
        return tuple(
            (request.at - due).total_seconds() for request, due in zip(self.requests, self._due(), strict=True)
        )

    def _due(self) -> Iterator[datetime]:
        yield self.first_due_at
        for number, failed in enumerate(self.requests[:-1]):
            # Nothing is due after the last retry of the schedule: what comes all the same is late from there.
            delays = SpecificationPolicy.delays_seconds
            delay = delays[min(number, len(delays) - 1)]
            yield failed.at + timedelta(seconds=delay)


def series(receiver: str, requests: Sequence[Received], registered_at: datetime) -> list[Series]:
    """Group a receiver's genuine requests by message, in the order of the first of each; a handshake has no id."""
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
