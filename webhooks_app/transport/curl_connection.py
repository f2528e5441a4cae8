"""A reusable connection opened by libcurl, including TLS and proxy."""

from __future__ import annotations

import errno
import logging
import os
import socket
import time
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from typing import Any

from . import errors
from .base import Request, TransportError
from .endpoint import Endpoint
from .exhaustion import exhaustion_log, is_exhaustion
from .libcurl import pycurl
from .refused_addresses import Address
from .wire_format import bracketed

logger = logging.getLogger("webhooks_app.transport")

HOST_NAME_MISMATCH = 62
ADDRESS_MISMATCH = 64
HANDSHAKE = {pycurl.E_SSL_CONNECT_ERROR, pycurl.E_SSL_CIPHER, pycurl.E_SSL_ISSUER_ERROR, pycurl.E_SSL_INVALIDCERTSTATUS}
LOST = {pycurl.E_GOT_NOTHING, pycurl.E_SEND_ERROR, pycurl.E_RECV_ERROR}
_STAGES = (("connect", pycurl.CONNECT_TIME), ("tls", pycurl.APPCONNECT_TIME))


class _Socket(socket.socket):
    """A socket for libcurl, which uses a duplicate of it. Closed by the collector without a ResourceWarning."""

    def __del__(self) -> None:
        super(socket.socket, self).close()  # unlike socket.close(), possible after a failure of __init__


class CurlConnection:
    """A libcurl handle and its connection.

    libcurl only opens the connection (``CONNECT_ONLY``). The caller implements HTTP, because libcurl's own parser
    aborts a transfer at the first malformed header line, before the header is complete.
    """

    origin = ""
    address = ""
    fd = -1

    def __init__(self, options: Mapping[int, Any], socket_opened: Callable[[], None], *, proxied: bool) -> None:
        self.curl = pycurl.Curl()
        self._socket_opened = socket_opened
        self._proxied = proxied
        self._settings: dict[int, str | int] = {}
        self._endpoint: Endpoint | None = None
        self._addresses: tuple[Address, ...] = ()
        self.peer = ""
        self.used_at = 0.0
        self.opened_from = 0.0
        """The time when libcurl started to open the connection."""
        self.requests = 0
        """The number of requests sent on the connection."""
        for option, value in options.items():
            self.curl.setopt(option, value)
        self.curl.setopt(pycurl.OPENSOCKETFUNCTION, self._on_connect)

    def prepare(self, endpoint: Endpoint, addresses: tuple[Address, ...], seconds: float) -> None:
        """Configure the handle for a connection to one of the checked addresses, within ``seconds``."""
        self._endpoint = endpoint
        self._addresses = addresses
        self._is_exhausted = self._met_other_peer = self._proxy_spoke = False
        self.origin = endpoint.origin
        self.peer = ""
        self.requests = 0
        self.fd = -1
        self.opened_from = time.monotonic()
        self._set(pycurl.URL, endpoint.origin)
        if self._proxied:
            self.curl.setopt(pycurl.CONNECT_TO, [f"::{bracketed(str(addresses[0]))}:{endpoint.port}"])
        if not endpoint.is_address:
            self.curl.setopt(pycurl.RESOLVE, [_pin(endpoint, addresses)])  # holds for one connection
        self._set(pycurl.TIMEOUT_MS, max(1, int(seconds * 1000)))

    def opened(self) -> bool:
        """Record the details of the open connection. Return False if its peer is not a checked address.

        Also return False if a proxy has sent more than the header of its answer.
        """
        self.fd = self.curl.getinfo(pycurl.ACTIVESOCKET)
        peer = str(self.curl.getinfo(pycurl.PRIMARY_IP))
        self.used_at = time.monotonic()
        if self._proxied:
            self.address = str(self._addresses[0])
            assert self._endpoint is not None
            # With TLS, the handshake fails.
            self._proxy_spoke = self._endpoint.scheme == "http" and not self.is_silent()
            return not self._proxy_spoke
        self.peer = self.address = peer
        self._met_other_peer = ip_address(peer) not in self._addresses
        return not self._met_other_peer

    def send(self, data: bytes | memoryview) -> int:
        """Send without blocking, and return the number of bytes sent. Raise BlockingIOError or pycurl.error."""
        return int(self.curl.send(data))

    def receive(self, size: int) -> bytes:
        """Return the available bytes, or b"" at the end. Raise BlockingIOError or pycurl.error."""
        data = bytes(self.curl.recv(size))
        self.used_at = time.monotonic()
        return data

    def is_silent(self) -> bool:
        try:
            self.curl.recv(1)
        except BlockingIOError:
            return True
        except pycurl.error:
            return False
        return False

    def has_tunnel(self) -> bool:
        """Return True if the proxy opened a connection to the receiver."""
        return int(self.curl.getinfo(pycurl.HTTP_CONNECTCODE)) // 100 == 2

    def timings(self, seconds_before: float) -> dict[str, float]:
        """Return the end of each stage, in seconds since the start of the attempt."""
        return {stage: seconds_before + seconds for stage, info in _STAGES if (seconds := self.curl.getinfo(info))}

    def failure(self, code: int, message: str, request: Request) -> TransportError:
        """Return the error for libcurl's error code and the stage of the connection."""
        assert self._endpoint is not None
        if code == pycurl.E_OPERATION_TIMEDOUT:
            return self._timeout(request.timeout_seconds)
        if code == pycurl.E_PEER_FAILED_VERIFICATION:
            return errors.certificate_refused(self._verify_code())
        if code in HANDSHAKE:
            return errors.handshake_failed()
        if self._is_exhausted and code == pycurl.E_COULDNT_CONNECT:
            return errors.internal_error()
        if self._proxied and (self._proxy_spoke or not self.has_tunnel()):
            return errors.proxy_failed()
        if self._met_other_peer:
            return errors.address_refused(self._endpoint.host)
        if code in LOST or (code == pycurl.E_COULDNT_CONNECT and self._was_reset()):
            return errors.reset_at_once(self._endpoint.scheme)
        if code == pycurl.E_COULDNT_CONNECT:
            return errors.not_connected(self._endpoint.authority)
        logger.error("libcurl could not connect to %s: %s (%d)", self._endpoint.authority, message, code)
        return errors.internal_error()

    def _timeout(self, seconds: float) -> TransportError:
        assert self._endpoint is not None
        if self._proxied and not self.has_tunnel():
            return errors.proxy_failed()
        if self._endpoint.scheme == "https" and self.curl.getinfo(pycurl.CONNECT_TIME):
            return errors.handshake_timed_out(seconds)
        return errors.connect_timed_out(seconds)

    def _verify_code(self) -> int:
        # libcurl compares the name itself. OpenSSL's result is then 0 (no check) or 1 (unspecified error).
        code = int(self.curl.getinfo(pycurl.SSL_VERIFYRESULT))
        if code > 1:
            return code
        return ADDRESS_MISMATCH if self._endpoint is not None and self._endpoint.is_address else HOST_NAME_MISMATCH

    def _was_reset(self) -> bool:
        """Return True if the receiver accepted the connection and reset it immediately."""
        return int(self.curl.getinfo(pycurl.OS_ERRNO)) in (errno.ECONNRESET, errno.EPIPE)

    def _note_exhaustion(self, error: OSError) -> None:
        if is_exhaustion(error):
            exhaustion_log.add(error)
            self._is_exhausted = True

    def _set(self, option: int, value: str | int) -> None:
        """Set an option unless it already has this value from an earlier connection."""
        if self._settings.get(option) != value:
            self._settings[option] = value
            self.curl.setopt(option, value)

    def _on_connect(self, _purpose: int, address: pycurl.CurlSockAddr) -> socket.socket | int:
        if not self._proxied and ip_address(address.addr[0]) not in self._addresses:
            self._met_other_peer = True
            return pycurl.SOCKET_BAD
        try:
            opened = _Socket(address.family, address.socktype, address.protocol)
            os.close(os.dup(opened.fileno()))  # pycurl duplicates the socket, without an error if it cannot
        except OSError as error:
            self._note_exhaustion(error)
            return pycurl.SOCKET_BAD
        self._socket_opened()
        return opened


def _pin(endpoint: Endpoint, addresses: tuple[Address, ...]) -> str:
    # The plus sign makes the entry expire after DNS_CACHE_TIMEOUT.
    return f"+{endpoint.host}:{endpoint.port}:{','.join(bracketed(str(address)) for address in addresses)}"
