"""The span of an emission. Its events keep it as the origin of their trace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from ..models import Event
from ..tracing import EVENT_ID, EVENT_TYPE, NAME, Tracing


@contextmanager
def emission_span(tracing: Tracing, events: Sequence[Event], writing: AbstractContextManager[None]) -> Iterator[None]:
    """Write these unsaved events within a span."""
    types = {event.type for event in events}
    attributes: dict[str, str | int] = {
        "messaging.system": NAME,
        "messaging.operation.name": "emit",
        "messaging.operation.type": "send",
    }
    if len(types) == 1:
        (attributes["messaging.destination.name"],) = types
        attributes[EVENT_TYPE] = events[0].type
    span = tracing.start(" ".join(["emit", *types]) if len(types) == 1 else "emit", "PRODUCER", attributes)
    traceparent = tracing.traceparent(span)
    for event in events:
        event.traceparent = traceparent
    with tracing.current(span), writing:
        yield
    tracing.end(span, _written(events))


def _written(events: Sequence[Event]) -> dict[str, str | int]:
    """Return the attributes of the events that were written. One with a used idempotency key was not."""
    ids = [event.pk for event in events if not event._state.adding]
    if len(events) > 1:
        return {"messaging.batch.message_count": len(ids)}
    return {"messaging.message.id": ids[0], EVENT_ID: ids[0]} if ids else {}
