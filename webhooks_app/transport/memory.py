"""A transport for tests that sends nothing. The test provides the answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeAlias

from ..exceptions import InvalidEndpointError
from . import errors
from .base import BaseTransport, Exchange, Request, Response, TransportError, TransportOptions
from .endpoint import AddressGuard

Answer: TypeAlias = Response | TransportError | int
"""The result of a request. An int is a response with this status, no headers and no body."""


class MemoryTransport(BaseTransport):
    """Answer every request with ``answer``, and record it in ``requests``.

    ``answer`` is the answer to all requests, or a function that returns the answer to one. A function may return
    None: the request then stays in flight until ``complete``. URLs are checked as in every transport. Names are not
    resolved.
    """

    name = "memory"

    def __init__(
        self,
        options: TransportOptions | None = None,
        *,
        answer: Answer | Callable[[Request], Answer | None] | None = 200,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.options = options or TransportOptions()
        self.capacity = self.options.max_in_flight
        self.answer = answer
        self.requests: list[Request] = []
        self._guard = AddressGuard(self.options)
        self._clock = clock
        self._changed = threading.Condition()
        self._held: list[tuple[Request, float]] = []
        self._finished: list[Exchange] = []
        self._woken = False

    @property
    def in_flight(self) -> int:
        with self._changed:
            return len(self._held) + len(self._finished)

    @property
    def held(self) -> list[Request]:
        """The requests in flight, oldest first."""
        with self._changed:
            return [request for request, _ in self._held]

    def start(self, request: Request) -> None:
        with self._changed:
            self.requests.append(request)
            self._held.append((request, self._clock()))
        answer = self._answer_to(request)
        if answer is not None:
            self.complete(request, answer)

    def complete(self, request: Request, answer: Answer = 200) -> None:
        """Finish a request in flight. Thread-safe. Raise ValueError if the request is not in flight."""
        with self._changed:
            index = next((i for i, (held, _) in enumerate(self._held) if held is request), None)
            if index is None:
                raise ValueError("The request is not in flight.")
            _, started_at = self._held.pop(index)
            self._finished.append(_exchange(request, answer, self._clock() - started_at))
            self._changed.notify_all()

    def wait(self, timeout_seconds: float) -> list[Exchange]:
        with self._changed:
            self._changed.wait_for(lambda: self._finished or self._woken, timeout_seconds)
            self._woken = False
            finished, self._finished = self._finished, []
            return finished

    def wake(self) -> None:
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._held.clear()
            self._finished.clear()

    def _answer_to(self, request: Request) -> Answer | None:
        try:
            self._guard.endpoint(request.url)
        except InvalidEndpointError as error:
            return errors.url_refused(str(error))
        return self.answer(request) if callable(self.answer) else self.answer


def _exchange(request: Request, answer: Answer, duration_seconds: float) -> Exchange:
    if isinstance(answer, TransportError):
        return Exchange(request=request, duration_seconds=duration_seconds, error=answer)
    response = Response(status=answer) if isinstance(answer, int) else answer
    return Exchange(request=request, duration_seconds=duration_seconds, response=response)
