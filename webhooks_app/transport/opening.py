"""The opening of a connection: TCP, the tunnel of a proxy, and TLS."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Sequence
from ipaddress import ip_address

from . import errors
from .base import Request, TransportError
from .connection import Connection
from .endpoint import Endpoint
from .errors import AttemptError
from .exhaustion import error_of
from .proxy import Proxy, tunnel
from .racing import connect_to_first
from .refused_addresses import Address
from .sender import Sender
from .steps import READ, WRITE, Steps, Wait


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
        self._addresses = [str(address) for address in addresses]
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
            address=address,
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
        if _is_address(proxy.host):
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

    def _open(self, addresses: Sequence[str], port: int, until: float) -> Steps[tuple[socket.socket, str]]:
        opened = yield from connect_to_first(self._sender.sockets, addresses, port, until)
        self._timings["connect"] = time.monotonic() - self._started_at
        return opened

    def _secure(self, sock: socket.socket) -> Steps[tuple[ssl.SSLSocket, float]]:
        """Return the socket with TLS, and the time when its certificate was verified."""
        sender, origin = self._sender, self._endpoint.origin
        may_resume = not (self._request.fresh_connection or self._request.probe)
        kept = sender.sessions.get(origin) if may_resume else None
        secured = None
        try:
            secured = sender.context.wrap_socket(
                sock,
                server_hostname=self._endpoint.host,
                do_handshake_on_connect=False,
                session=kept.session if kept else None,
            )
            sender.sockets.replace(sock, secured)
            yield from self._shake_hands(secured)
        except BaseException as error:
            if secured is not None:
                sender.sockets.close(secured)
            if not isinstance(error, OSError):
                raise
            if kept is not None:
                sender.sessions.forget(origin)
            raise AttemptError(self._handshake_error(error)) from None
        self._timings["tls"] = time.monotonic() - self._started_at
        resumed = kept is not None and bool(secured.session_reused)
        return secured, kept.verified_at if kept is not None and resumed else time.monotonic()

    def _shake_hands(self, secured: ssl.SSLSocket) -> Steps[None]:
        while True:
            try:
                secured.do_handshake()
            except ssl.SSLWantReadError:
                events = READ
            except ssl.SSLWantWriteError:
                events = WRITE
            else:
                return
            if time.monotonic() >= self._ends_at:
                raise TimeoutError
            yield Wait(self._ends_at, {secured.fileno(): events})

    def _handshake_error(self, error: OSError) -> TransportError:
        if isinstance(error, ssl.SSLCertVerificationError):
            return errors.certificate_refused(error.verify_code)
        if isinstance(error, TimeoutError):
            return errors.handshake_timed_out(self._request.timeout_seconds)
        return errors.handshake_failed()


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
