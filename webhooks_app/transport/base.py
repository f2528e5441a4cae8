"""The contract of a transport: many requests in flight in one thread, each bounded in time and size.

Requests, responses and exchanges are tuples, because there is one of each for every delivery.
"""

from __future__ import annotations

import abc
import enum
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

RESPONSE_READ_LIMIT = 64 * 1024
"""Bytes of a response body after which reading stops; the status counts all the same."""

RESPONSE_KEPT = 16 * 1024
"""Bytes of a response body that an exchange keeps, unless the request asks for more."""

RECEIVED_KEPT = 1024
"""Bytes that an exchange keeps of an answer that is no HTTP response."""

BODY_SECONDS = 2.0
"""Seconds for which a body is read after its header, unless the request asks for more; the header has decided."""

PIECE_BYTES = 16 * 1024
"""Bytes that are read at once."""


class ErrorClass(enum.StrEnum):
    """Why an attempt got no complete response header."""

    TIMEOUT = "timeout"
    CONNECTION_ERROR = "connection_error"
    DNS_ERROR = "dns_error"
    TLS_ERROR = "tls_error"
    INVALID_RESPONSE = "invalid_response"
    ADDRESS_REFUSED = "address_refused"
    INTERNAL_ERROR = "internal_error"


class Request(NamedTuple):
    """One POST to send. ``timeout_seconds`` bounds the whole exchange, name resolution included."""

    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    timeout_seconds: float
    context: Any = None
    owner: str = ""
    """The account that the request is sent for; lookups of names are shared out fairly between owners."""
    probe: str = ""
    """The identifier of a handshake or test event, which may be postponed; empty for others."""
    fresh_connection: bool = False
    """Whether the request needs a new connection, because an earlier attempt failed."""
    response_kept: int = RESPONSE_KEPT
    """Bytes of the response body to keep, at most ``RESPONSE_READ_LIMIT``."""
    body_seconds: float = BODY_SECONDS
    """Seconds for which the body is read after the header, within the timeout."""

    def encoded_headers(self) -> list[tuple[bytes, bytes]]:
        """Return the headers as bytes. Raises ValueError for one that would not stay a single header line."""
        refuse_line_breaks("".join(itertools.chain.from_iterable(self.headers)))
        return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in self.headers]


def refuse_line_breaks(text: str) -> None:
    """Raise ValueError for a part of a header that would end it."""
    if "\r" in text or "\n" in text or "\0" in text:
        raise ValueError("A header of the request holds a line break or a NUL.")


class Response(NamedTuple):
    """A complete final response header, and the first bytes of the body: ``Request.response_kept`` at most."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


@dataclass(frozen=True, kw_only=True, slots=True)
class TransportError:
    """Why there is no response. ``message`` is for the webhook's owner: no internal address in it."""

    error_class: ErrorClass
    message: str


class Exchange(NamedTuple):
    """A finished request: exactly one of ``response``, ``error`` and ``postponed_seconds`` is set."""

    request: Request
    duration_seconds: float
    response: Response | None = None
    error: TransportError | None = None
    peer: str = ""
    """The address that was connected, as text; empty if none was."""
    timings: Mapping[str, float] = MappingProxyType({})
    """Seconds since the start at which a stage was over, where the transport knows:
    dns, connect, tls, first_byte."""
    received: bytes = b""
    """The first ``RECEIVED_KEPT`` bytes of an answer whose header was not complete."""
    postponed_seconds: float = 0.0
    """Nothing was sent: its address gets too many probes, and has a place for this one after so many seconds."""


class BaseTransport(abc.ABC):
    """Sends requests side by side. Used by one thread; only ``wake`` may be called from another."""

    name: str
    capacity: int
    """How many requests it can have on the wire at once. More may be started; they wait their turn."""

    @abc.abstractmethod
    def start(self, request: Request) -> None:
        """Begin to send. Never blocks and never raises for what a URL or a receiver does."""

    @abc.abstractmethod
    def wait(self, timeout_seconds: float) -> list[Exchange]:
        """Return the exchanges that are over, waiting for the first at most ``timeout_seconds``.

        Returns early, possibly with nothing, after ``wake``.
        """

    @abc.abstractmethod
    def wake(self) -> None:
        """End a ``wait`` that is under way, or else the next one. Thread-safe."""

    @property
    @abc.abstractmethod
    def in_flight(self) -> int:
        """How many requests were started and not yet returned by ``wait``."""

    @abc.abstractmethod
    def close(self) -> None:
        """Give up what is in flight and free sockets and threads."""
