"""`requests` and urllib3, made to connect only where an attempt may, to keep its deadline and to trust no answer."""

from __future__ import annotations

import io
import socket
import ssl
import time
from collections import deque
from functools import partial
from http.client import HTTPResponse
from http.cookiejar import DefaultCookiePolicy
from typing import TYPE_CHECKING, Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool

from . import failures
from .attempt import Attempt
from .guard import AddressGuard
from .header import MAX_HEADER_BYTES
from .options import IDLE_CONNECTION_SECONDS
from .proxy import Proxy
from .resolver import NameResolver

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

PIECE_BYTES = 16 * 1024
FRAMING_HEADERS = (b"content-length:", b"transfer-encoding:")


class GuardedSession(requests.Session):
    """A session that takes nothing from the environment, keeps no cookies and never looks at a Location."""

    def __init__(self, adapter: GuardedAdapter) -> None:
        super().__init__()
        self.adapter = adapter
        self.trust_env = False
        self.headers.clear()
        self.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        self.mount("https://", adapter)
        self.mount("http://", adapter)

    def get_redirect_target(self, resp: object) -> None:
        """Return nothing: requests would read a redirect's whole body to find the next request."""


class GuardedAdapter(HTTPAdapter):
    """Sends one attempt at a time, in one thread."""

    attempt: Attempt

    def __init__(
        self, guard: AddressGuard, resolver: NameResolver, context: ssl.SSLContext, proxy: Proxy | None
    ) -> None:
        super().__init__(pool_maxsize=1)
        self.context = context
        self.proxy = proxy
        self.proxy_names = NameResolver()
        self._guard = guard
        self._resolver = resolver
        self._connections: dict[str, Any] = {"http": partial(_Connection, self), "https": partial(_TLSConnection, self)}

    def get_connection_with_tls_context(self, *_args: Any, **_kwargs: Any) -> HTTPConnectionPool:
        """Return the pool of the attempt's endpoint, as the guard read it, once its addresses are checked."""
        endpoint = self.attempt.endpoint
        self.attempt.resolve(self._resolver, self._guard)
        pool: HTTPConnectionPool = self.poolmanager.connection_from_host(endpoint.host, endpoint.port, endpoint.scheme)
        pool.ConnectionCls = self._connections[endpoint.scheme]
        return pool

    def cert_verify(self, *_args: Any, **_kwargs: Any) -> None:
        """Do nothing: the context holds the trust store, which would be read again for each connection."""


class _Connection(HTTPConnection):
    def __init__(self, adapter: GuardedAdapter, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.adapter = adapter
        self.used_at = 0.0
        self.response_class = partial(_Response, self)  # type: ignore[assignment]
        self._peer = ""

    @property
    def is_connected(self) -> bool:
        """Whether the kept connection may serve the attempt, to whose addresses it must lead."""
        idle_seconds = time.monotonic() - self.used_at
        in_answer = self.adapter.proxy or self._peer in map(str, self.adapter.attempt.addresses)
        if not (super().is_connected and in_answer and idle_seconds < IDLE_CONNECTION_SECONDS):
            return False
        self.adapter.attempt.use(self.sock, self._peer)
        return True

    def connect(self) -> None:
        adapter, attempt = self.adapter, self.adapter.attempt
        opened = attempt.connect_through(adapter.proxy, adapter.proxy_names) if adapter.proxy else attempt.connect()
        self.sock = self._secured(opened)
        self._peer = attempt.peer
        attempt.use(self.sock, self._peer)

    def putrequest(
        self,
        method: str,
        url: str,
        skip_host: bool = False,
        skip_accept_encoding: bool = False,
    ) -> None:
        """Begin the request with the endpoint's target, whose escapes urllib3 would rewrite."""
        target = self.adapter.attempt.endpoint.target
        super().putrequest(method, target, skip_host=skip_host, skip_accept_encoding=True)

    def send(self, data: Any) -> None:
        if self.sock is None:
            self.connect()
        # In pieces, because a timeout bounds each call on a TLS socket and not their sum.
        for start in range(0, len(data), PIECE_BYTES):
            self.sock.settimeout(self.adapter.attempt.seconds_left())
            self.sock.sendall(data[start : start + PIECE_BYTES])

    def _secured(self, opened: socket.socket) -> socket.socket:
        return opened


class _TLSConnection(_Connection, HTTPSConnection):
    def _secured(self, opened: socket.socket) -> socket.socket:
        secured = self.adapter.attempt.secure(opened, self.adapter.context)
        self.is_verified = True
        return secured


class _Response(HTTPResponse):
    def __init__(self, connection: _Connection, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        self.fp = self._incoming = _Incoming(_BoundedSocketIO(self.fp.detach(), sock, connection), connection)

    def begin(self, **options: Any) -> None:
        self._incoming.read_header()
        super().begin(**options)


class _Incoming(io.BufferedReader):
    """What comes from the receiver. Its header is read here; http.client sees only what frames the body."""

    def __init__(self, raw: io.RawIOBase, connection: _Connection) -> None:
        super().__init__(raw)
        self._attempt = connection.adapter.attempt
        self._shown: deque[bytes] = deque()

    def read_header(self) -> None:
        """Read up to the blank line after the final header block. Raises OSError if it never comes."""
        header = self._attempt.header
        while not header.complete:
            line = super().readline(MAX_HEADER_BYTES + 1)
            if not line.endswith(b"\n") and len(line) <= MAX_HEADER_BYTES:
                raise self._attempt.fail(failures.connection_lost())
            if not header.feed(line) and not header.complete:
                self._give_up()
        self._shown.append(b"HTTP/1.1 %d\r\n" % header.status)
        self._shown.extend(line for line in header.lines if line.lower().startswith(FRAMING_HEADERS))
        self._shown.append(b"Connection: keep-alive\r\n" if header.keeps_connection else b"Connection: close\r\n")
        self._shown.append(b"\r\n")

    def readline(self, size: int | None = -1, /) -> bytes:
        return self._shown.popleft() if self._shown else super().readline(size)

    def _give_up(self) -> None:
        if self._attempt.header.stalled:
            time.sleep(self._attempt.seconds_left())
            raise TimeoutError
        raise self._attempt.fail(failures.invalid_response(self._attempt.header.problem))


class _BoundedSocketIO(io.RawIOBase):
    """Reads from a socket, each time for as long as the attempt may still take."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket, connection: _Connection) -> None:
        self._raw = raw
        self._sock = sock
        self._connection = connection
        self._attempt = connection.adapter.attempt

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int | None:
        self._sock.settimeout(self._attempt.seconds_left())
        count = self._raw.readinto(buffer)
        self._connection.used_at = time.monotonic()
        self._attempt.timings.setdefault("first_byte", self._attempt.duration_seconds)
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()
