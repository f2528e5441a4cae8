"""The opening of a connection: TCP to the fastest of several addresses, the tunnel of a proxy, and TLS."""

from __future__ import annotations

import os
import re
import socket
import ssl
import time
from collections import deque
from collections.abc import Collection, Sequence

from . import errors
from .base import Request, TransportError
from .connections import READ, WOULD_BLOCK, WRITE, Connection, Ready, Sockets, Steps, Wait
from .endpoint import Endpoint
from .errors import AttemptError, error_of, is_exhaustion
from .refused_addresses import Address
from .sender import Proxy, Sender
from .system_names import is_address
from .tls import secure

NEXT_ADDRESS_SECONDS = 0.25
"""The delay before trying the next address as well. RFC 8305 recommends 250 ms."""

MAX_PROXY_ANSWER_BYTES = 64 * 1024
_AGREES = re.compile(rb"HTTP/1\.[01] 200[ \r\n]")


class Opening:
    """A new connection for one request to one of the checked addresses. Its stages share the request's deadline."""

    __slots__ = ("_addresses", "_endpoint", "_ends_at", "_request", "_sender", "_started_at", "_timings")

    def __init__(
        self,
        sender: Sender,
        request: Request,
        endpoint: Endpoint,
        addresses: Sequence[Address],
        *,
        started_at: float,
        timings: dict[str, float],
    ) -> None:
        """``timings`` receives the end of each stage."""
        self._sender = sender
        self._request = request
        self._endpoint = endpoint
        self._addresses = {str(address): address for address in addresses}
        self._started_at = started_at
        self._ends_at = started_at + request.timeout_seconds
        self._timings = timings

    def steps(self) -> Steps[Connection]:
        """Return the open connection. Raise AttemptError if there is none."""
        self._sender.make_room()
        proxy = self._sender.proxy
        sock, address = yield from self._connect() if proxy is None else self._connect_through(proxy)
        verified_at = None
        try:
            if self._endpoint.scheme == "https":
                sock, verified_at = yield from self._secure(sock)
        except BaseException:
            self._sender.sockets.close(sock)
            raise
        connection = Connection(
            sock,
            self._sender.sockets,
            origin=self._endpoint.origin,
            address=self._addresses[address],
            peer="" if proxy else address,
            verified_at=verified_at,
        )
        if proxy is not None and self._endpoint.scheme == "http" and not connection.is_silent():
            connection.close()  # the proxy has sent more than its answer
            raise AttemptError(errors.proxy_failed())
        return connection

    def _connect(self) -> Steps[tuple[socket.socket, str]]:
        try:
            return (yield from self._open(self._addresses, self._endpoint.port, self._ends_at))
        except TimeoutError:
            raise AttemptError(errors.connect_timed_out(self._request.timeout_seconds)) from None
        except ConnectionResetError:
            raise AttemptError(errors.reset_at_once(self._endpoint.scheme)) from None
        except OSError as error:
            raise AttemptError(error_of(error, errors.not_connected(self._endpoint.authority))) from None

    def _connect_through(self, proxy: Proxy) -> Steps[tuple[socket.socket, str]]:
        """Return a socket with the proxy's tunnel to one of the addresses. Each address gets its share of the time."""
        try:
            proxy_addresses = yield from self._addresses_of(proxy)
            for number, address in enumerate(self._addresses):
                now = time.monotonic()
                until = now + (self._ends_at - now) / (len(self._addresses) - number)
                if (sock := (yield from self._tunnel(proxy, proxy_addresses, address, until))) is not None:
                    return sock, address
        except Exception as error:  # noqa: BLE001 - including exceptions of the resolver
            raise AttemptError(error_of(error, errors.proxy_failed())) from None
        raise AttemptError(errors.proxy_failed())

    def _addresses_of(self, proxy: Proxy) -> Steps[Sequence[str]]:
        if is_address(proxy.host):
            return [proxy.host]
        answer = self._sender.proxy_names.lookup(proxy.host, proxy.port, until=self._ends_at)
        while not answer.done():
            if time.monotonic() >= self._ends_at:
                raise TimeoutError
            yield Wait(self._ends_at, answer=answer)
        return answer.result()

    def _tunnel(
        self, proxy: Proxy, proxy_addresses: Sequence[str], address: str, until: float
    ) -> Steps[socket.socket | None]:
        sock, _ = yield from self._open(proxy_addresses, proxy.port, until)
        agrees = False
        try:
            agrees = yield from tunnel(sock, proxy.authorization, address, self._endpoint.port, until)
        except OSError:
            pass  # the proxy ended the connection
        finally:
            if not agrees:
                self._sender.sockets.close(sock)
        return sock if agrees else None

    def _open(self, addresses: Collection[str], port: int, until: float) -> Steps[tuple[socket.socket, str]]:
        opened = yield from connect_to_first(self._sender.sockets, addresses, port, until)
        self._timings["connect"] = time.monotonic() - self._started_at
        return opened

    def _secure(self, sock: socket.socket) -> Steps[tuple[ssl.SSLSocket, float]]:
        """Return the socket with TLS, and the time when its certificate was verified."""
        sender, origin = self._sender, self._endpoint.origin
        may_resume = not (self._request.fresh_connection or self._request.probe)
        kept = sender.sessions.get(origin) if may_resume else None
        try:
            secured = yield from secure(
                sock,
                sender.sockets,
                sender.context,
                host=self._endpoint.host,
                session=kept.session if kept else None,
                until=self._ends_at,
            )
        except OSError as error:
            if kept is not None:
                sender.sessions.forget(origin)
            raise AttemptError(self._handshake_error(error)) from None
        self._timings["tls"] = time.monotonic() - self._started_at
        resumed = kept is not None and bool(secured.session_reused)
        return secured, kept.verified_at if kept is not None and resumed else time.monotonic()

    def _handshake_error(self, error: OSError) -> TransportError:
        if isinstance(error, ssl.SSLCertVerificationError):
            return errors.certificate_refused(error.verify_code)
        if isinstance(error, TimeoutError):
            return errors.handshake_timed_out(self._request.timeout_seconds)
        return errors.handshake_failed()


def connect_to_first(
    sockets: Sockets, addresses: Collection[str], port: int, until: float
) -> Steps[tuple[socket.socket, str]]:
    """Return a socket connected to one of the addresses, and that address (RFC 8305, section 5).

    The attempts start in order and overlap. No data is sent. The other connections are closed. Raise TimeoutError at
    ``until``, and the last OSError if all addresses failed.
    """
    race = _Race(sockets, addresses, port, until)
    try:
        winner = yield from race.steps()
    finally:
        race.close_losers()
    winner[0].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return winner


class _Race:
    def __init__(self, sockets: Sockets, addresses: Collection[str], port: int, deadline: float) -> None:
        self._sockets = sockets
        self._waiting = deque(addresses)
        self._port = port
        self._deadline = deadline
        self._running: dict[int, tuple[socket.socket, str]] = {}
        self._error: OSError = OSError("There is no address to connect to.")

    def steps(self) -> Steps[tuple[socket.socket, str]]:
        while self._waiting or self._running:
            until = self._deadline
            if self._waiting:
                self._start(self._waiting.popleft())
                until = min(until, time.monotonic() + NEXT_ADDRESS_SECONDS) if self._waiting else until
            while self._running:
                ready = yield Wait(until, dict.fromkeys(self._running, WRITE))
                winner = self._first_of(ready)
                if winner is not None:
                    return winner
                if not ready and time.monotonic() >= until:
                    break
            if time.monotonic() >= self._deadline:
                raise TimeoutError
        raise self._error

    def close_losers(self) -> None:
        for sock, _ in self._running.values():
            self._sockets.close(sock)

    def _start(self, address: str) -> None:
        try:
            sock = self._sockets.open(socket.AF_INET6 if ":" in address else socket.AF_INET)
        except OSError as error:  # for example without IPv6 in the kernel
            self._fail(error)
            return
        try:
            sock.connect((address, self._port))
        except BlockingIOError:
            pass
        except OSError as error:
            self._fail(error)
            self._sockets.close(sock)
            return
        self._running[sock.fileno()] = sock, address

    def _first_of(self, ready: Ready) -> tuple[socket.socket, str] | None:
        """Return the first connected one of the ready sockets, and close those that failed."""
        for fd in ready:
            sock, address = self._running.pop(fd)
            number = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if not number:
                return sock, address
            self._fail(OSError(number, os.strerror(number)))
            self._sockets.close(sock)
        return None

    def _fail(self, error: OSError) -> None:
        """Record the error of an address. An error on our side takes precedence over errors of receivers."""
        if not is_exhaustion(self._error):
            self._error = error


def tunnel(sock: socket.socket, authorization: str, address: str, port: int, until: float) -> Steps[bool]:
    """Request a tunnel to the address from the proxy at the socket. Return True if the proxy confirms it in time.

    Raise OSError if the connection to the proxy fails.
    """
    target = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if authorization:
        lines.append(f"Proxy-Authorization: {authorization}")
    unsent = "\r\n".join([*lines, "", ""]).encode("latin-1")
    header = b""
    while b"\r\n\r\n" not in header and len(header) < MAX_PROXY_ANSWER_BYTES:
        try:
            if unsent:
                unsent = unsent[sock.send(unsent) :]
            else:
                header += (received := sock.recv(4096))
                if not received:
                    return False
        except WOULD_BLOCK:
            if time.monotonic() >= until:
                return False
            yield Wait(until, {sock.fileno(): WRITE if unsent else READ})
    # What follows the header would be lost, or taken for the receiver's.
    return header.find(b"\r\n\r\n") == len(header) - 4 >= 0 and _AGREES.match(header) is not None
