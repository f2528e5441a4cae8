"""One request, from the check of its URL to the end of its response."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from functools import lru_cache

from ..exceptions import InvalidEndpointError
from . import errors
from .answer import AnswerReader
from .base import ErrorClass, Exchange, Request, Response, TransportError
from .connections import READ, WRITE, Connection, Steps, Wait
from .endpoint import Endpoint
from .errors import AttemptError, error_of
from .opening import Opening
from .refused_addresses import Address
from .resolver import LOOKUP_SECONDS
from .sender import Sender

logger = logging.getLogger("webhooks_app.transport")

SENT_AT_ONCE = 64 * 1024
"""Bytes of a request that are sent in one turn."""

TURN_SECONDS = 0.002
"""Time after which a transfer that still has data to read leaves the turn to others."""


class Transfer:
    """A request in progress. ``steps`` never blocks, and returns the exchange."""

    __slots__ = (
        "_ends_at",
        "_has_header",
        "_sender",
        "_started_at",
        "_timings",
        "_unsent",
        "_was_kept",
        "connection",
        "reader",
        "request",
    )

    def __init__(self, request: Request, sender: Sender) -> None:
        self.request = request
        self.reader = AnswerReader(request.response_kept)
        self.connection: Connection | None = None
        """The connection of the request. It may be reused if it is still open after the exchange."""
        self._sender = sender
        self._started_at = time.monotonic()
        self._ends_at = self._started_at + request.timeout_seconds
        self._timings: dict[str, float] = {}
        self._unsent = memoryview(b"")
        self._was_kept = False
        self._has_header = False

    def steps(self) -> Steps[Exchange]:
        """Send the request and read its response. The complete header decides, whatever happens later."""
        error: TransportError | None = None
        try:
            endpoint = self._sender.guard.endpoint(self.request.url)
            self._unsent = memoryview(wire_format(self.request, endpoint))
            addresses: Sequence[Address]
            addresses = (endpoint.address,) if endpoint.address else (yield from self._resolve(endpoint))
            if self.request.probe and (seconds := self._sender.turns.seconds_to_wait(self.request, addresses)):
                return Exchange(self.request, self._seconds(), postponed_seconds=seconds)
            connection = None
            if not self.request.fresh_connection:
                connection = self._sender.kept.take(endpoint.origin, addresses)
            if connection is None:
                connection = yield from Opening(
                    self._sender,
                    self.request,
                    endpoint,
                    addresses,
                    started_at=self._started_at,
                    timings=self._timings,
                ).steps()
            error = yield from self._converse(connection)
        except InvalidEndpointError as refused:
            error = errors.url_refused(str(refused))
        except AttemptError as failed:
            error = failed.error
        except Exception:
            logger.exception("A request could not be sent")
            error = errors.internal_error()
        return self.exchange(error, None if error else self.reader.response)

    def exchange(self, error: TransportError | None, response: Response | None = None) -> Exchange:
        """Return the result of the request."""
        return Exchange(
            request=self.request,
            duration_seconds=self._seconds(),
            response=response,
            error=error,
            peer=self.connection.peer if self.connection else "",
            timings=self._timings,
            received=self.reader.received,
        )

    def _resolve(self, endpoint: Endpoint) -> Steps[Sequence[Address]]:
        """Return the permitted addresses of the name. Raise AttemptError if there are none."""
        answer = self._sender.resolver.lookup(endpoint.host, endpoint.port, self.request.owner, until=self._ends_at)
        while not answer.done():
            now = time.monotonic()
            deadline = answer.deadline(self._started_at, self._ends_at)
            if now >= deadline:
                raise AttemptError(answer.timed_out(self.request.timeout_seconds))
            # Without a thread the lookup has not begun, and its deadline may come before the one known now.
            yield Wait(min(deadline, now + LOOKUP_SECONDS), answer=answer)
        if (problem := answer.exception()) is not None:
            raise AttemptError(error_of(problem, errors.name_unknown(endpoint.host)))
        checked = self._sender.guard.check_answer(endpoint.host, answer.result())
        if isinstance(checked, TransportError):
            raise AttemptError(checked)
        self._timings["dns"] = self._seconds()
        return checked

    def _converse(self, connection: Connection) -> Steps[TransportError | None]:
        """Send and read. Return the error without a complete header."""
        self.connection = connection
        self._was_kept = connection.requests > 0
        connection.requests += 1
        is_reusable = False
        try:
            error = yield from self._send_and_receive(connection)
            is_reusable = self.reader.leaves_connection and not self._unsent
            self._keep_session(connection)
        finally:
            if not is_reusable:
                connection.close()
        if is_reusable:
            self._sender.kept.keep(connection)
        elif error is not None and error.error_class is ErrorClass.CONNECTION_ERROR:
            self._sender.kept.distrust(connection.origin)
        return error

    def _keep_session(self, connection: Connection) -> None:
        if connection.verified_at is None or self._was_kept or not self.reader.header.complete:
            return
        if (session := connection.session) is not None:
            self._sender.sessions.keep(connection.origin, session, connection.verified_at)

    def _send_and_receive(self, connection: Connection) -> Steps[TransportError | None]:
        reader = self.reader
        may_send = self._send(connection)
        wait = Wait(self._ends_at, {connection.fd: READ | WRITE if may_send else READ})
        while True:
            yield wait
            is_cut = False
            if not reader.is_stalled:
                is_over, is_cut = self._receive(connection)
                if is_over:
                    return None if reader.header.complete else reader.problem or self._lost()
                may_send = may_send and self._send(connection)
            if time.monotonic() >= self._ends_at:
                return None if reader.header.complete else errors.timed_out(self.request.timeout_seconds)
            if reader.is_stalled:
                wait = Wait(self._ends_at)
            else:
                events = READ | WRITE if may_send else READ
                wait = Wait(0.0 if is_cut else self._ends_at, {connection.fd: events})

    def _send(self, connection: Connection) -> bool:
        """Return True if there is more to send."""
        try:
            self._unsent = self._unsent[connection.send(self._unsent[:SENT_AT_ONCE]) :]
        except OSError:
            return False  # the receiver may have answered early. Reading follows
        return bool(self._unsent)

    def _receive(self, connection: Connection) -> tuple[bool, bool]:
        """Return whether the response or the connection is over, and whether there may be more to read at once."""
        reader = self.reader
        turn_ends_at = 0.0
        while not (reader.is_over or reader.is_stalled):
            try:
                data = connection.receive(reader.wanted)
            except OSError:
                return True, False
            if data is None:
                return False, False
            if not data:
                return True, False
            now = connection.used_at
            if not turn_ends_at:
                turn_ends_at = now + TURN_SECONDS
                self._timings.setdefault("first_byte", now - self._started_at)
            reader.feed(data)
            if reader.header.complete and not self._has_header:
                self._has_header = True
                self._ends_at = min(self._ends_at, now + self.request.body_seconds)
            if time.monotonic() >= turn_ends_at and not reader.is_over:
                return False, True
        return reader.is_over, False

    def _lost(self) -> TransportError:
        return errors.connection_lost(was_kept=self._was_kept)

    def _seconds(self) -> float:
        return time.monotonic() - self._started_at


def wire_format(request: Request, endpoint: Endpoint) -> bytes:
    """Return the bytes of the request. Raise ValueError if a header contains a line break or a NUL."""
    lines = [f"{name}: {value}" for name, value in request.headers]
    text = "\r\n".join(lines)
    breaks = len(lines) - 1 if lines else 0
    if text.count("\n") != breaks or text.count("\r") != breaks or "\0" in text:
        raise ValueError("A header of the request contains a line break or a NUL.")
    start = _start(endpoint.target, endpoint.authority, tuple([name for name, _ in request.headers]))
    end = "\r\n" if lines else ""
    return f"{start}{text}{end}Content-Length: {len(request.body)}\r\n\r\n".encode("latin-1") + request.body


@lru_cache(maxsize=4096)
def _start(target: str, authority: str, names: Sequence[str]) -> str:
    """Return the request line, and the lines that are the same for all requests to a URL with these headers."""
    given = {name.lower() for name in names}
    line = f"POST {target} HTTP/1.1\r\n"
    host = "" if "host" in given else f"Host: {authority}\r\n"
    return line + host + ("" if "accept" in given else "Accept: */*\r\n")
