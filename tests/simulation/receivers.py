"""Receivers of the simulation, with the behaviours of those of the fault tests, and the transport of a worker."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from webhooks_app.transport import BaseTransport, ErrorClass, Exchange, Request, Response, TransportError

from .loop import Event, Process

CHALLENGE = b'{"challenge": "%s"}'


class Reply(NamedTuple):
    """What a receiver does after some seconds: a status, or no answer and the reason."""

    seconds: float
    status: int = 0
    error: str = ""
    retry_after: str = ""


Behaviour = Callable[[Random, int], Reply]
"""Returns the reply to a request, given the number of requests for its delivery, including this one."""


def _fails(times: int) -> Behaviour:
    return lambda random, number: Reply(0.02, 500 if number <= times else 200)


def _moody(random: Random, number: int) -> Reply:
    return random.choice(
        (
            Reply(0.02, 200),
            Reply(0.02, 500),
            Reply(0.01, error="connection_error"),
            Reply(1.5, 200),
            Reply(0.05, error="invalid_response"),
        )
    )


BEHAVIOURS: dict[str, Behaviour] = {
    "ok": lambda random, number: Reply(0.01 + 0.05 * random.random(), 200),
    "quick": lambda random, number: Reply(0.002, 200),
    "slow": lambda random, number: Reply(2.0 + random.random(), 200),
    "uneven": lambda random, number: Reply(random.choice((0.01, 0.4, 0.9, 1.1, 4.0)), 200),
    "fails once": _fails(1),
    "fails twice": _fails(2),
    "never": lambda random, number: Reply(0.02, 503),
    "slowly fails": lambda random, number: Reply(1.2, 500),
    "hangs": lambda random, number: Reply(1e9, 200),
    "late": lambda random, number: Reply(29.0 + 2 * random.random(), 200),
    "resets": lambda random, number: Reply(0.01, error="connection_error"),
    "no content": lambda random, number: Reply(0.02, 204),
    "redirects": lambda random, number: Reply(0.02, 302),
    "asks to wait": lambda random, number: Reply(0.02, 503 if number == 1 else 200, retry_after="7"),
    "moody": _moody,
    "succeeds once": lambda random, number: Reply(2.5, 200) if number == 1 else Reply(0.02, 503),
}


class Receiver:
    def __init__(self, behaviour: str) -> None:
        self.behaviour = behaviour

    def reply(self, random: Random, number: int) -> Reply:
        return BEHAVIOURS[self.behaviour](random, number)


class OpenRequest(NamedTuple):
    request: Request
    started_at: float
    by_clock: float
    """The start by the clock of the worker."""


class SimulatedTransport(BaseTransport):
    """The transport of one worker: each request ends by the reply of its receiver, or by its timeout."""

    name = "simulated"

    def __init__(self, process: Process, network: Any, capacity: int) -> None:
        self.capacity = capacity
        self._process, self._network, self._loop = process, network, process.loop
        self._changed = Event(process.loop)
        self._open: dict[int, OpenRequest] = {}
        self._ended: list[Exchange] = []
        self._number = 0

    @property
    def in_flight(self) -> int:
        return len(self._open) + len(self._ended)

    def start(self, request: Request) -> None:
        self._number += 1
        number = self._number
        if self._network.postpones(request):
            self._ended.append(Exchange(request, 0.0, postponed_seconds=0.5))
            self._changed.set()
            return
        self._open[number] = OpenRequest(request, self._loop.now, self._process.monotonic())
        reply: Reply = self._network.began(self._process, request)
        timeout = self._process.real_seconds(request.timeout_seconds)
        if reply.seconds <= timeout:
            self._loop.after(reply.seconds, lambda: self._end(number, reply))
        else:
            self._loop.after(timeout, lambda: self._end(number, Reply(timeout, error="timeout")))

    def _end(self, number: int, reply: Reply) -> None:
        found = self._open.pop(number, None)
        if found is None or self._process.is_dead:
            return
        request = found.request
        duration = self._process.monotonic() - found.by_clock
        self._network.ended(self._process, request, reply)
        if reply.error:
            error = TransportError(error_class=ErrorClass(reply.error), message="")
            self._ended.append(Exchange(request, duration, error=error))
        else:
            headers = (("Retry-After", reply.retry_after),) if reply.retry_after else ()
            challenge = request.context.challenge
            body = CHALLENGE % challenge.encode() if challenge and reply.status == 200 else b""
            self._ended.append(Exchange(request, duration, response=Response(reply.status, headers, body)))
        self._changed.set()

    def wait(self, timeout_seconds: float) -> list[Exchange]:
        if not self._ended:
            self._changed.wait(timeout_seconds)
        self._changed.clear()
        ended, self._ended = self._ended, []
        return ended

    def wake(self) -> None:
        self._changed.set()

    def close(self) -> None:
        for number in list(self._open):
            found = self._open.pop(number)
            self._network.ended(self._process, found.request, Reply(0.0, error="abandoned"))
