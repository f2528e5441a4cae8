"""The interface of a transport: many concurrent requests in one thread, each bounded in time and size.

Requests, responses and exchanges are tuples for speed: every delivery creates one of each.
"""

from __future__ import annotations

import abc
import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from .refused_addresses import Network
from .system_names import Resolve, resolve_by_system

RESPONSE_READ_LIMIT = 64 * 1024
"""Size in bytes after which the rest of a response body is not read. It does not affect the outcome."""

RESPONSE_KEPT = 16 * 1024
"""Bytes of a response body that an exchange stores by default."""

RECEIVED_KEPT = 1024
"""Bytes that an exchange stores of an answer without a complete HTTP header."""

BODY_SECONDS = 2.0
"""Default time in seconds for reading a body after its header. The header alone decides about success."""

PIECE_BYTES = 4 * 1024
"""Maximum number of bytes for one read. A piece of tiny chunks, the slowest to parse, takes a turn of a few ms."""


class ErrorClass(enum.StrEnum):
    """The reason for an attempt without a complete response header."""

    TIMEOUT = "timeout"
    CONNECTION_ERROR = "connection_error"
    DNS_ERROR = "dns_error"
    TLS_ERROR = "tls_error"
    INVALID_RESPONSE = "invalid_response"
    ADDRESS_REFUSED = "address_refused"
    INTERNAL_ERROR = "internal_error"


class Request(NamedTuple):
    """One POST request. ``timeout_seconds`` bounds the whole exchange, name resolution included."""

    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    timeout_seconds: float
    context: Any = None
    owner: str = ""
    """The account that sends the request. Lookups of names are shared fairly between owners."""
    probe: str = ""
    """The identifier of a handshake or test event, which may be postponed; empty for others."""
    fresh_connection: bool = False
    """Whether a new connection is required because an earlier attempt failed."""
    response_kept: int = RESPONSE_KEPT
    """Bytes of the response body to store, at most ``RESPONSE_READ_LIMIT``."""
    body_seconds: float = BODY_SECONDS
    """Time in seconds for reading the body after the header, within the timeout."""


class Response(NamedTuple):
    """A complete final response header, and the first ``Request.response_kept`` bytes of the body."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    body_problem: str = ""
    """The reason for an incomplete body, worded for the owner of the webhook. It does not affect the outcome."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TransportError:
    """The reason for a missing response. The owner of the webhook sees ``message``: no internal address in it."""

    error_class: ErrorClass
    message: str


class Exchange(NamedTuple):
    """A finished request. Exactly one of ``response``, ``error`` and ``postponed_seconds`` is set."""

    request: Request
    duration_seconds: float
    response: Response | None = None
    error: TransportError | None = None
    peer: str = ""
    """The address of the connection's other end, or an empty string without a connection."""
    timings: Mapping[str, float] = MappingProxyType({})
    """Seconds from the start to the end of each stage, if the transport measures it:
    dns, connect, tls, first_byte."""
    received: bytes = b""
    """The first ``RECEIVED_KEPT`` bytes of an answer without a complete header."""
    postponed_seconds: float = 0.0
    """Time until the address has a place for this probe. Nothing was sent."""


@dataclass(frozen=True, kw_only=True)
class TransportOptions:
    """Options of every transport. The defaults are safe."""

    allow_http: bool = False
    allowed_networks: tuple[Network, ...] = ()
    """Networks that are permitted although the table of addresses refuses them."""
    refused_networks: tuple[Network, ...] = ()
    """Networks that are always refused, even if they are allowed."""
    proxy: str = field(default="", repr=False)
    """An egress proxy as ``http://[user:password@]host:port``. Its CONNECT requests contain an address that was
    resolved and checked here. Proxies set in the environment are ignored."""
    ca_bundle: str = ""
    """A PEM file with certificate authorities to trust in addition to the system's."""
    max_in_flight: int = 10_000
    probes_per_second: float | None = None
    """The number of probes that one address gets; None for no limit."""
    resolve: Resolve = resolve_by_system


class BaseTransport(abc.ABC):
    """Send requests concurrently. Only ``wake`` is thread-safe."""

    name: str = ""
    """Shown for each worker. A system check refuses a transport without one."""
    capacity: int = 64
    """Maximum number of requests on the wire. Further requests are queued."""

    @abc.abstractmethod
    def start(self, request: Request) -> None:
        """Start a request. Never block, and never raise because of a URL or a receiver."""

    @abc.abstractmethod
    def wait(self, timeout_seconds: float) -> list[Exchange]:
        """Return the finished exchanges, waiting at most ``timeout_seconds`` for the first.

        Return early, possibly without any, after ``wake``.
        """

    @abc.abstractmethod
    def wake(self) -> None:
        """End the current ``wait``, or else the next one. Thread-safe."""

    @property
    @abc.abstractmethod
    def in_flight(self) -> int:
        """The number of requests that were started but not yet returned by ``wait``."""

    @abc.abstractmethod
    def close(self) -> None:
        """Abandon the requests in flight, and free sockets and threads."""
