"""Emission: from a call by the host to events and deliveries in the database."""

from .emitting import (
    NewEvent,
    Operational,
    aemit,
    aemit_many,
    emit,
    emit_many,
    emit_on,
    emit_operational,
    new_test_event,
    queue_test,
)

__all__ = [
    "NewEvent",
    "Operational",
    "aemit",
    "aemit_many",
    "emit",
    "emit_many",
    "emit_on",
    "emit_operational",
    "new_test_event",
    "queue_test",
]
