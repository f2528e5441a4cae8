"""One request in a thread of its own: its deadline, the connection it may open, and what became of it."""

from __future__ import annotations

import re
import socket
import ssl
import time
from collections.abc import Sequence
from contextlib import suppress

from . import failures
from .base import Request, TransportError
from .endpoint import Endpoint
from .guard import AddressGuard
from .header import MAX_HEADER_BYTES, HeaderReader
from .ip_filter import Address
from .proxy import Proxy
from .resolver import LOOKUP_SECONDS, NameResolver

GRACE_SECONDS = 0.05
"""For how long what has arrived by the deadline may still be read."""

_PROXY_AGREES = re.compile(rb"HTTP/1\.[01] 200[ \r\n]")


class AttemptError(OSError):
    """The attempt is over; ``Attempt.error`` says why. An OSError, because those come through urllib3 unharmed."""


class Attempt:
    """A request on its way. All that it does shares one deadline. Raises ValueError for a header that breaks HTTP."""

    def __init__(self, request: Request, endpoint: Endpoint, started_at: float) -> None:
        self.request = request
        self.endpoint = endpoint
        self.wire_format = _wire_format(request, endpoint)
        self.header = HeaderReader()
        self.addresses: tuple[Address, ...] = ()
        self.sock: socket.socket | None = None
        self.ready = False
        """Whether a connection stands, TLS included."""
        self.peer = ""
        self.timings: dict[str, float] = {}
        self.error: TransportError | None = None
        self.started_at = started_at
        self._grace_ends_at: float | None = None

    @property
    def duration_seconds(self) -> float:
        return time.monotonic() - self.started_at

    def seconds_left(self) -> float:
        """Return how long the attempt may still take. Raises TimeoutError if no longer."""
        left = self.request.timeout_seconds - self.duration_seconds
        if left <= 0:
            raise TimeoutError
        return left

    def grace_seconds_left(self) -> float:
        """Return what is left of the grace, which begins when it is first asked for. Raises TimeoutError if nothing."""
        now = time.monotonic()
        if self._grace_ends_at is None:
            self._grace_ends_at = now + GRACE_SECONDS
        if now >= self._grace_ends_at:
            raise TimeoutError
        return self._grace_ends_at - now

    def fail(self, error: TransportError) -> AttemptError:
        """Remember why the attempt is over; return what to raise."""
        self.error = error
        return AttemptError(error.message)

    def resolve(self, resolver: NameResolver, guard: AddressGuard) -> None:
        """Find the addresses that may be tried. Raises AttemptError if there are none."""
        host = self.endpoint.host
        if self.endpoint.address is not None:
            self.addresses = (self.endpoint.address,)
            return
        bound = min(LOOKUP_SECONDS, self.seconds_left())
        try:
            answer = resolver.lookup(host, self.endpoint.port).result(bound)
        except TimeoutError:
            raise self.fail(failures.name_timed_out(host, bound)) from None
        except Exception:  # noqa: BLE001 - whatever a resolver raises, the name has no address
            raise self.fail(failures.name_unknown(host)) from None
        checked = guard.check_answer(host, answer)
        if isinstance(checked, TransportError):
            raise self.fail(checked)
        self.addresses = checked
        self.timings["dns"] = self.duration_seconds

    def connect(self) -> tuple[socket.socket, str]:
        """Return a socket connected to the first address that answers, and the address."""
        opened = self._open([str(address) for address in self.addresses], self.endpoint.port)
        if opened is None:
            raise self.fail(failures.not_connected(self.endpoint.authority))
        self.peer = opened.getpeername()[0]
        return opened, self.peer

    def connect_through(self, proxy: Proxy, resolver: NameResolver) -> tuple[socket.socket, str]:
        """Return a socket on which the proxy has opened a connection to an address, and the address."""
        with suppress(OSError):
            proxy_addresses = resolver.lookup(proxy.host, proxy.port).result(self.seconds_left())
            for number, address in enumerate(map(str, self.addresses)):
                share = self.seconds_left() / (len(self.addresses) - number)
                opened = self._open(proxy_addresses, proxy.port)
                if opened is None:
                    break
                if self._tunnels(opened, address, proxy.authorization, until=time.monotonic() + share):
                    return opened, address
                opened.close()
        raise self.fail(failures.proxy_failed())

    def secure(self, sock: socket.socket, context: ssl.SSLContext) -> ssl.SSLSocket:
        """Return the socket with TLS on it, once the certificate was found to be the host's."""
        sock.settimeout(self.seconds_left())
        try:
            secured = context.wrap_socket(sock, server_hostname=self.endpoint.host)
        except ssl.SSLCertVerificationError as error:
            raise self.fail(failures.certificate_refused(error.verify_code)) from None
        except TimeoutError:
            raise self.fail(failures.handshake_timed_out(self.request.timeout_seconds)) from None
        except OSError:
            raise self.fail(failures.handshake_failed()) from None
        self.sock = secured
        self.timings["tls"] = self.duration_seconds
        return secured

    def use(self, sock: socket.socket, peer: str) -> None:
        """Note that the request goes out on this connection, which is complete."""
        self.sock = sock
        self.peer = peer
        self.ready = True

    def abandon(self) -> None:
        """Break the connection, from another thread."""
        if self.sock is not None:
            with suppress(OSError):
                socket.socket.shutdown(self.sock, socket.SHUT_RDWR)  # SSLSocket's own would first wait for its turn

    def failure(self, *, timed_out: bool) -> TransportError:
        """Return why there is no response, by the point that was reached."""
        if self.error is not None:
            return self.error
        if self.header.problem:
            return failures.invalid_response(self.header.problem)
        if not timed_out and self.duration_seconds < self.request.timeout_seconds:
            return failures.connection_lost()
        if self.ready:
            return failures.timed_out(self.request.timeout_seconds)
        return failures.connect_timed_out(self.request.timeout_seconds)

    def _open(self, addresses: Sequence[str], port: int) -> socket.socket | None:
        for number, address in enumerate(addresses):
            share = self.seconds_left() / (len(addresses) - number)
            opened = self.sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
            opened.settimeout(share)
            try:
                opened.connect((address, port))
                opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except OSError:
                opened.close()
                continue
            self.timings["connect"] = self.duration_seconds
            return opened
        self.seconds_left()
        return None

    def _tunnels(self, opened: socket.socket, host: str, authorization: str, *, until: float) -> bool:
        """Ask a proxy for a connection to the host; return whether it says in time that it stands."""
        target = f"{_bracketed(host)}:{self.endpoint.port}"
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
        return b"\r\n\r\n" in header and _PROXY_AGREES.match(header) is not None


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _wire_format(request: Request, endpoint: Endpoint) -> bytes:
    pairs = request.encoded_headers()
    given = {name.lower() for name, _ in pairs}
    lines = [b"POST " + endpoint.target.encode("ascii") + b" HTTP/1.1"]
    if b"host" not in given:
        lines.append(b"Host: " + endpoint.authority.encode("ascii"))
    if b"accept" not in given:
        lines.append(b"Accept: */*")
    lines.extend(name + b": " + value for name, value in pairs)
    lines.append(b"Content-Length: %d\r\n\r\n" % len(request.body))
    return b"\r\n".join(lines) + request.body
