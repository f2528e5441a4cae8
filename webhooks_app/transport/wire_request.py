"""One request in a thread of its own: its deadline, its connection and its result."""

from __future__ import annotations

import re
import socket
import ssl
import time
from collections.abc import Sequence
from contextlib import suppress

from . import errors
from .answer import AnswerReader
from .base import Request, TransportError
from .endpoint import Endpoint
from .exhaustion import error_of
from .guard import AddressGuard
from .header import MAX_HEADER_BYTES
from .probe_turns import ProbeTurns
from .proxy import Proxy
from .racing import connect_to_first
from .refused_addresses import Address
from .resolver import NameResolver
from .wire_format import bracketed, wire_format

GRACE_SECONDS = 0.05
"""Extra time for reading data that arrived before the deadline."""

_PROXY_AGREES = re.compile(rb"HTTP/1\.[01] 200[ \r\n]")


class AttemptError(OSError):
    """The attempt failed with ``Attempt.error``, or is postponed.

    An OSError, because urllib3 passes those on unchanged.
    """


class Attempt:
    """A request in progress. All of its steps share one deadline. Raise ValueError if a header violates HTTP."""

    def __init__(self, request: Request, endpoint: Endpoint, started_at: float) -> None:
        self.request = request
        self.endpoint = endpoint
        self.wire_format = wire_format(request, endpoint)
        self.reader = AnswerReader(request.response_kept)
        self.addresses: tuple[Address, ...] = ()
        self.sock: socket.socket | None = None
        self.ready = False
        """Whether the connection is open, including TLS."""
        self.was_kept = False
        """Whether the connection was reused."""
        self.peer = ""
        self.timings: dict[str, float] = {}
        self.error: TransportError | None = None
        self.postponed_seconds = 0.0
        self.started_at = started_at
        self._ends_at = started_at + request.timeout_seconds
        self._grace_ends_at: float | None = None

    @property
    def duration_seconds(self) -> float:
        return time.monotonic() - self.started_at

    def begin_body(self) -> None:
        """Limit the time for the body. The body does not affect the outcome."""
        self._ends_at = min(self._ends_at, time.monotonic() + self.request.body_seconds)

    def seconds_left(self) -> float:
        """Return the remaining time of the attempt. Raise TimeoutError if there is none."""
        left = self._ends_at - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def grace_seconds_left(self) -> float:
        """Return the remaining extra time, which starts with the first call. Raise TimeoutError if there is none."""
        now = time.monotonic()
        if self._grace_ends_at is None:
            self._grace_ends_at = now + GRACE_SECONDS
        if now >= self._grace_ends_at:
            raise TimeoutError
        return self._grace_ends_at - now

    def fail(self, error: TransportError) -> AttemptError:
        """Store the error, and return the exception to raise."""
        self.error = error
        return AttemptError(error.message)

    def lost(self) -> AttemptError:
        """Return the exception for a connection that ended before the header was complete."""
        return self.fail(errors.connection_lost(was_kept=self.was_kept))

    def is_lost(self, error: OSError) -> bool:
        """Return True if the error means that the connection ended before the header was complete."""
        return not isinstance(error, TimeoutError) and self.reader.problem is None

    def resolve(self, resolver: NameResolver, guard: AddressGuard) -> None:
        """Determine the permitted addresses. Raise AttemptError if there are none."""
        host = self.endpoint.host
        if self.endpoint.address is not None:
            self.addresses = (self.endpoint.address,)
            return
        answer = resolver.lookup(host, self.endpoint.port, self.request.owner, until=self._ends_at)
        try:
            found = answer.wait(self._ends_at)
        except TimeoutError:
            raise self.fail(answer.timed_out(self.request.timeout_seconds)) from None
        except Exception as error:  # noqa: BLE001 - any exception means that there is no address
            raise self.fail(error_of(error, errors.name_unknown(host))) from None
        checked = guard.check_answer(host, found)
        if isinstance(checked, TransportError):
            raise self.fail(checked)
        self.addresses = checked
        self.timings["dns"] = self.duration_seconds

    def take_turn(self, turns: ProbeTurns) -> None:
        """Take a place at the addresses. Raises AttemptError if there is none now."""
        self.postponed_seconds = turns.seconds_to_wait(self.request, self.addresses)
        if self.postponed_seconds:
            raise AttemptError("postponed")

    def connect(self) -> tuple[socket.socket, str]:
        """Return a socket connected to one of the addresses, and that address."""
        try:
            opened = self._open([str(address) for address in self.addresses], self.endpoint.port, self.seconds_left())
        except TimeoutError:
            raise
        except ConnectionResetError:
            raise self.fail(errors.reset_at_once(self.endpoint.scheme)) from None
        except OSError as error:
            raise self.fail(error_of(error, errors.not_connected(self.endpoint.authority))) from None
        try:
            self.peer = opened.getpeername()[0]
        except OSError:  # reset immediately after opening
            raise self.fail(errors.reset_at_once(self.endpoint.scheme)) from None
        return opened, self.peer

    def connect_through(self, proxy: Proxy, resolver: NameResolver) -> tuple[socket.socket, str]:
        """Return a socket with the proxy's tunnel to one of the addresses, and that address."""
        try:
            proxy_addresses = resolver.lookup(proxy.host, proxy.port, until=self._ends_at).wait(self._ends_at)
            for number, address in enumerate(map(str, self.addresses)):
                share = self.seconds_left() / (len(self.addresses) - number)
                until = time.monotonic() + share
                opened = self._open(proxy_addresses, proxy.port, share)
                if self._tunnels(opened, address, proxy.authorization, until=until):
                    return opened, address
                opened.close()
        except Exception as error:  # noqa: BLE001 - including exceptions of the resolver
            raise self.fail(error_of(error, errors.proxy_failed())) from None
        raise self.fail(errors.proxy_failed())

    def secure(self, sock: socket.socket, context: ssl.SSLContext) -> ssl.SSLSocket:
        """Return the socket with TLS, after verifying the host's certificate."""
        sock.settimeout(self.seconds_left())
        try:
            secured = context.wrap_socket(sock, server_hostname=self.endpoint.host)
        except ssl.SSLCertVerificationError as error:
            raise self.fail(errors.certificate_refused(error.verify_code)) from None
        except TimeoutError:
            raise self.fail(errors.handshake_timed_out(self.request.timeout_seconds)) from None
        except OSError:
            raise self.fail(errors.handshake_failed()) from None
        self.sock = secured
        self.timings["tls"] = self.duration_seconds
        return secured

    def use(self, sock: socket.socket, peer: str, *, was_kept: bool) -> None:
        """Record the connection of the request."""
        self.sock = sock
        self.peer = peer
        self.was_kept = was_kept
        self.ready = True

    def abandon(self) -> None:
        """Shut down the connection. Called from another thread."""
        if self.sock is not None:
            with suppress(OSError):
                socket.socket.shutdown(self.sock, socket.SHUT_RDWR)  # SSLSocket.shutdown() could block

    def close(self) -> None:
        """Close the connection, if one was opened."""
        if self.sock is not None:
            self.sock.close()

    def failure(self, *, timed_out: bool) -> TransportError:
        """Return the error for the current stage of the attempt."""
        if self.error is not None:
            return self.error
        if not timed_out and self.duration_seconds < self.request.timeout_seconds:
            return errors.connection_lost(was_kept=self.was_kept)
        if self.ready:
            return errors.timed_out(self.request.timeout_seconds)
        return errors.connect_timed_out(self.request.timeout_seconds)

    def _open(self, addresses: Sequence[str], port: int, seconds: float) -> socket.socket:
        self.sock = opened = connect_to_first(addresses, port, seconds)
        self.timings["connect"] = self.duration_seconds
        return opened

    def _tunnels(self, opened: socket.socket, host: str, authorization: str, *, until: float) -> bool:
        """Request a tunnel to the host from a proxy. Return True if the proxy confirms it in time."""
        target = f"{bracketed(host)}:{self.endpoint.port}"
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
        if authorization:
            lines.append(f"Proxy-Authorization: {authorization}")
        header = b""
        with suppress(OSError):
            opened.settimeout(max(until - time.monotonic(), 0.001))
            opened.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))
            while b"\r\n\r\n" not in header and len(header) < MAX_HEADER_BYTES:
                opened.settimeout(max(until - time.monotonic(), 0.001))
                header += (received := opened.recv(4096))
                if not received:
                    return False
        # What follows the header would be lost, or taken for the receiver's.
        return header.find(b"\r\n\r\n") == len(header) - 4 >= 0 and _PROXY_AGREES.match(header) is not None
