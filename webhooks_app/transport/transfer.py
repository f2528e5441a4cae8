"""One request through libcurl: a handle that is used again and again, and what its callbacks saw."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Mapping
from ipaddress import IPv6Address, ip_address
from typing import Any

import pycurl

from . import failures
from .base import RESPONSE_KEPT, RESPONSE_READ_LIMIT, Request, Response, TransportError, refuse_line_breaks
from .chunks import ChunkReader
from .endpoint import Endpoint
from .header import HeaderReader
from .ip_filter import Address
from .kept_sockets import KeptSockets, LocalAddress

if not hasattr(pycurl, "PREREQFUNCTION"):
    raise ImportError(f"pycurl 7.46 or newer, with the libcurl of its wheel, is needed; this is {pycurl.version}.")

logger = logging.getLogger("webhooks_app.transport")

STOP = -1
SMALL_BODY = 4096
WEIRD_REPLY = 8
TOO_LARGE = 100
HOST_NAME_MISMATCH = 62
# What libcurl calls a line without end has changed from "out of memory" to "too large".
MALFORMED_LINE = {WEIRD_REPLY, pycurl.E_BAD_CONTENT_ENCODING}
MALFORMED = MALFORMED_LINE | {pycurl.E_UNSUPPORTED_PROTOCOL, pycurl.E_OUT_OF_MEMORY, TOO_LARGE}
HANDSHAKE = {pycurl.E_SSL_CONNECT_ERROR, pycurl.E_SSL_CIPHER, pycurl.E_SSL_ISSUER_ERROR, pycurl.E_SSL_INVALIDCERTSTATUS}
LOST = {
    pycurl.E_OK,
    pycurl.E_PARTIAL_FILE,
    pycurl.E_ABORTED_BY_CALLBACK,
    pycurl.E_GOT_NOTHING,
    pycurl.E_SEND_ERROR,
    pycurl.E_RECV_ERROR,
}


class _Socket(socket.socket):
    """A socket that libcurl gets a duplicate of, so that this one goes without a word."""

    def __del__(self) -> None:
        self.close()


class Transfer:
    """A libcurl handle, and the request that it is sending."""

    request: Request
    endpoint: Endpoint
    addresses: tuple[Address, ...]
    started_at: float
    seconds_before: float
    """What was spent before libcurl began, on the name."""

    def __init__(
        self,
        options: Mapping[int, Any],
        socket_opened: Callable[[], None],
        kept_sockets: KeptSockets,
        *,
        proxied: bool,
    ) -> None:
        self.curl = pycurl.Curl()
        self._kept_sockets = kept_sockets
        self._local_address: LocalAddress = ("", 0)
        self._socket_opened = socket_opened
        self._proxied = proxied
        self._header = HeaderReader()
        self._feed = self._header.feed
        self._told: dict[int, str | int] = {}
        for option, value in options.items():
            self.curl.setopt(option, value)
        self.curl.setopt(pycurl.HEADERFUNCTION, self._on_header)
        self.curl.setopt(pycurl.WRITEFUNCTION, self._on_body)
        self.curl.setopt(pycurl.OPENSOCKETFUNCTION, self._on_connect)
        self.curl.setopt(pycurl.PREREQFUNCTION, self._on_request)

    def prepare(
        self,
        request: Request,
        endpoint: Endpoint,
        addresses: tuple[Address, ...],
        *,
        started_at: float,
        fresh: bool,
    ) -> None:
        """Load the handle with a request to addresses that were checked. Raises ValueError for a bad header."""
        self.request = request
        self.endpoint = endpoint
        self.addresses = addresses
        self.started_at = started_at
        self.curl.setopt(pycurl.HTTPHEADER, _header_lines(request))
        self.curl.setopt(pycurl.POSTFIELDS, request.body)
        self._tell(pycurl.URL, endpoint.origin)
        self._tell(pycurl.REQUEST_TARGET, endpoint.target)  # as a part of the URL its escapes would be rewritten
        self.begin(fresh=fresh)

    def begin(self, *, fresh: bool) -> None:
        """Forget what was seen, and take the time that is left.

        ``fresh`` asks for a connection that serves this request alone.
        """
        self._header.reset()
        self._body = bytearray()
        self._body_size = 0
        self._chunks: ChunkReader | None = None
        self._sent = self._opened = self._no_socket = False
        self.met_other_peer = self.met_doubtful_connection = False
        self.peer = ""
        self.fresh = fresh
        if self._proxied:
            self.curl.setopt(pycurl.CONNECT_TO, [f"::{_bracketed(self.addresses[0])}:{self.endpoint.port}"])
        if not self.endpoint.is_address:
            self.curl.setopt(pycurl.RESOLVE, [_pin(self.endpoint, self.addresses)])  # holds for one transfer
        self._tell(pycurl.FRESH_CONNECT, fresh)
        self._tell(pycurl.FORBID_REUSE, fresh)
        self.seconds_before = time.monotonic() - self.started_at
        seconds_left = self.request.timeout_seconds - self.seconds_before
        self._tell(pycurl.TIMEOUT_MS, max(1, int(seconds_left * 1000)))

    def turns_to_next_address(self) -> bool:
        """Begin again with the receiver's next address where the proxy did not reach this one, if there is time.

        Without a proxy libcurl itself knows all addresses and goes through them.
        """
        if not self._proxied or self._sent or len(self.addresses) == 1 or self._is_late():
            return False
        self.addresses = self.addresses[1:]
        self.begin(fresh=True)
        return True

    def release(self) -> None:
        """Let go of the request, since the handle may be idle for long."""
        if len(self.request.body) > SMALL_BODY:
            self.curl.setopt(pycurl.POSTFIELDS, b"")
        self._chunks = None
        del self.request, self._body

    def keeps_connection(self, fd: int) -> bool:
        """Tell whether the receiver keeps the connection, and note whether it may be used again, on its socket."""
        keeps = self._is_clean()
        if keeps and not self.fresh:
            self._kept_sockets.remember(self._local_address, fd)
        else:
            self._kept_sockets.forget(self._local_address)
        return keeps

    def response(self, code: int) -> Response | None:
        """Return what the receiver answered, if its answer is decided, however the transfer ended after that."""
        # libcurl stops at a header line that it finds malformed (a NUL, no colon). What the receiver answered
        # was said before it, and nothing after it could say otherwise.
        decided = self._header.complete or (code in MALFORMED_LINE and self._header.status)
        if not decided:
            return None
        return Response(status=self._header.status, headers=self._header.headers, body=bytes(self._body))

    def failure(self, code: int, message: str) -> TransportError:
        """Return why there is no response, from libcurl's error code and the point that was reached."""
        if self._header.problem:
            return failures.invalid_response(self._header.problem)
        if code == pycurl.E_OPERATION_TIMEDOUT:
            return self._timeout()
        if code in MALFORMED and self._sent:
            return failures.invalid_response("")
        if code == pycurl.E_PEER_FAILED_VERIFICATION:
            return failures.certificate_refused(self._verify_code())
        if code in HANDSHAKE:
            return failures.handshake_failed()
        if code in LOST and self._sent:
            return failures.connection_lost()
        if self._proxied and not self._sent:
            return failures.proxy_failed()
        if self.met_other_peer:
            return failures.address_refused(self.endpoint.host)
        if code == pycurl.E_COULDNT_CONNECT and not self._no_socket:
            return failures.not_connected(self.endpoint.authority)
        logger.error("libcurl could not send to %s: %s (%d)", self.endpoint.authority, message, code)
        return failures.internal_error()

    def timings(self) -> dict[str, float]:
        """Return when each stage was over, in seconds since the start."""
        curl, offset = self.curl, self.seconds_before
        stages = {} if self.endpoint.is_address else {"dns": offset}
        for stage, info in _STAGES:
            if seconds := curl.getinfo(info):
                stages[stage] = offset + seconds
        return stages

    def _verify_code(self) -> int:
        # libcurl compares the host name itself, and then OpenSSL has no opinion (0) or none of its own (1).
        code = int(self.curl.getinfo(pycurl.SSL_VERIFYRESULT))
        return code if code > 1 else HOST_NAME_MISMATCH

    def _tell(self, option: int, value: str | int) -> None:
        """Set an option that is often what it was for the handle's last request."""
        if self._told.get(option) == value:
            return
        self._told[option] = value
        self.curl.setopt(option, value)

    def _is_late(self) -> bool:
        return time.monotonic() - self.started_at >= self.request.timeout_seconds

    def _timeout(self) -> TransportError:
        seconds = self.request.timeout_seconds
        if self._sent:
            return failures.timed_out(seconds)
        if self._proxied:
            return failures.proxy_failed()
        if self.endpoint.scheme == "https" and self.curl.getinfo(pycurl.NUM_CONNECTS):
            return failures.handshake_timed_out(seconds)
        return failures.connect_timed_out(seconds)

    def _on_connect(self, _purpose: int, address: pycurl.CurlSockAddr) -> socket.socket | int:
        if not self._proxied and ip_address(address.addr[0]) not in self.addresses:
            self.met_other_peer = True
            return pycurl.SOCKET_BAD
        try:
            opened = _Socket(address.family, address.socktype, address.protocol)
        except OSError:
            logger.exception("No socket could be opened")
            self._no_socket = True
            return pycurl.SOCKET_BAD
        self._socket_opened()
        self._opened = True
        return opened

    def _on_request(self, peer: str, local: str, _peer_port: int, local_port: int) -> int:
        if self._sent:  # a kept connection broke, and libcurl would send the request a second time
            return pycurl.PREREQFUNC_ABORT
        self._local_address = (local, local_port)
        if not self._opened and not self._kept_sockets.is_silent(self._local_address):
            self.met_doubtful_connection = True
            return pycurl.PREREQFUNC_ABORT
        if not self._proxied:
            if peer != self.endpoint.host and ip_address(peer) not in self.addresses:
                self.met_other_peer = True
                return pycurl.PREREQFUNC_ABORT
            self.peer = peer
        self._sent = True
        return pycurl.PREREQFUNC_OK

    def _on_header(self, line: bytes) -> int | None:
        if not self._sent or self._feed(line):  # what comes before the request is the proxy's
            return None
        return pycurl.WRITEFUNC_PAUSE if self._header.stalled else STOP

    def _on_body(self, data: bytes) -> int | None:
        if not self._body_size and self._header.framing.is_chunked:
            self._chunks = ChunkReader()
        self._body_size += len(data)
        if self._chunks is not None:
            data = self._chunks.feed(data)
        if len(self._body) < RESPONSE_KEPT:
            self._body += data[: RESPONSE_KEPT - len(self._body)]
        if self._chunks is not None and self._chunks.is_over and not self._is_clean():
            return STOP
        return None if self._body_size < RESPONSE_READ_LIMIT else STOP

    def _is_clean(self) -> bool:
        """Whether the receiver's header and chunks leave no doubt about where its next answer begins."""
        return self._header.keeps_connection and (self._chunks is None or self._chunks.is_whole)


_STAGES = (
    ("connect", pycurl.CONNECT_TIME),
    ("tls", pycurl.APPCONNECT_TIME),
    ("first_byte", pycurl.STARTTRANSFER_TIME),
)


def _header_lines(request: Request) -> list[bytes]:
    # In libcurl's notation a colon without a value removes a header, and a semicolon stands for an empty value.
    lines = [f"{name}: {value}" if value else f"{name};" for name, value in request.headers]
    refuse_line_breaks("".join(lines))
    return [*"\n".join(lines).encode("latin-1").split(b"\n"), b"Expect:"]


def _pin(endpoint: Endpoint, addresses: tuple[Address, ...]) -> str:
    # The plus sign lets libcurl forget the entry after DNS_CACHE_TIMEOUT.
    return f"+{endpoint.host}:{endpoint.port}:{','.join(map(_bracketed, addresses))}"


def _bracketed(address: Address) -> str:
    return f"[{address}]" if isinstance(address, IPv6Address) else str(address)
