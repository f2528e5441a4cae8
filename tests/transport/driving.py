"""Running the steps of a connection or an exchange in a test."""

from __future__ import annotations

import threading
from typing import TypeVar

from webhooks_app.transport.connections import Steps
from webhooks_app.transport.requests import ready_of

T = TypeVar("T")


def result_of(steps: Steps[T]) -> T:
    """Return the result of the steps, after all of their waits."""
    never = threading.Event()
    try:
        wait = next(steps)
        while True:
            wait = steps.send(ready_of(wait, never))
    except StopIteration as stop:
        result: T = stop.value
        return result
