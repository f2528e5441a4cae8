"""The transport based on libcurl: thousands of concurrent requests in one thread."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

from ..exceptions import InvalidEndpointError
from . import errors
from .base import BaseTransport, ErrorClass, Exchange, Request, TransportError
from .curl_connection import CurlConnection
from .endpoint import Endpoint
from .exhaustion import free_descriptors
from .guard import AddressGuard
from .libcurl import pycurl
from .lookups import Lookup, PendingLookups
from .multi import Multi
from .options import TransportOptions
from .pool import ConnectionPool
from .probe_turns import ProbeTurns
from .proxy import parse_proxy
from .refused_addresses import Address
from .resolver import MAX_THREADS, NameResolver
from .tls import combined_bundle, system_bundle
from .transfer import Transfer

logger = logging.getLogger("webhooks_app.transport")

MAX_IDLE_HANDLES = 2000
NEVER = float("inf")


class CurlTransport(BaseTransport):
    """Open connections with libcurl's multi interface. The first use in a process creates it."""

    name = "curl"

    def __init__(self, options: TransportOptions | None = None) -> None:
        self._options = options or TransportOptions()
        free = free_descriptors(MAX_THREADS)
        self.capacity = min(self._options.max_in_flight, free.connections)
        self._guard = AddressGuard(self._options)
        self._bundle = combined_bundle(self._options.ca_bundle) if self._options.ca_bundle else None
        self._handle_options = self._constant_options()
        self._turns = ProbeTurns(self._options.probes_per_second)
        self._resolver = NameResolver(self._options.resolve, most=free.lookups)
        self._lookups = PendingLookups(self._resolver, self._interrupt)
        self._multi: Multi | None = None
        self._kept: ConnectionPool[_Connection] = ConnectionPool(self.capacity)
        self._unused: list[_Connection] = []
        self._opening: dict[pycurl.Curl, tuple[Transfer, _Connection]] = {}
        self._open: dict[int, _Connection] = {}
        self._active: dict[Transfer, _Connection] = {}
        self._finished: list[Exchange] = []
        self._next_timeout = NEVER
        self._in_flight = 0
        self._woken = False

    @property
    def in_flight(self) -> int:
        return self._in_flight

    def start(self, request: Request) -> None:
        self._in_flight += 1
        started_at = time.monotonic()
        try:
            endpoint = self._guard.endpoint(request.url)
        except InvalidEndpointError as error:
            self._fail(request, started_at, errors.url_refused(str(error)))
            return
        if endpoint.address is None:
            self._lookups.begin(Lookup(request=request, endpoint=endpoint, started_at=started_at))
        else:
            self._send(request, endpoint, (endpoint.address,), started_at)

    def wait(self, timeout_seconds: float) -> list[Exchange]:
        multi = self._opened()
        deadline = time.monotonic() + timeout_seconds
        while True:
            self._take_answers()
            for fd in multi.run(self._next_time(deadline)):
                self._attend(fd)
            self._take_opened(multi)
            self._end_late()
            if self._finished or self._woken or time.monotonic() >= deadline:
                break
        self._woken = False
        finished, self._finished = self._finished, []
        self._in_flight -= len(finished)
        return finished

    def wake(self) -> None:
        self._woken = True
        self._interrupt()

    def close(self) -> None:
        self._kept.close()
        for connection in [*self._active.values(), *(connection for _, connection in self._opening.values())]:
            connection.close()
        self._active.clear()
        self._opening.clear()
        if self._multi is not None:
            self._multi.close()
            self._multi = None
        self._resolver.close()
        if self._bundle is not None:
            self._bundle.close()
        self._unused.clear()
        self._finished.clear()
        self._in_flight = 0

    def forget(self, connection: _Connection) -> None:
        """Close a connection, open or not, and free its handle for another."""
        self._open.pop(connection.fd, None)
        self._opened().remove(connection.curl, connection.fd)
        connection.fd = -1
        if len(self._unused) < MAX_IDLE_HANDLES:
            self._unused.append(connection)

    def _opened(self) -> Multi:
        if self._multi is None:
            self._multi = Multi()
        return self._multi

    def _interrupt(self) -> None:
        if self._multi is not None:
            self._multi.interrupt()

    def _next_time(self, deadline: float) -> float:
        if self._finished or self._woken:
            return 0.0
        return min(deadline, self._lookups.next_deadline or deadline, self._next_timeout)

    def _take_answers(self) -> None:
        for lookup, answer in self._lookups.over(time.monotonic()):
            checked = self._checked(lookup, answer)
            if isinstance(checked, TransportError):
                self._fail(lookup.request, lookup.started_at, checked)
            else:
                self._send(lookup.request, lookup.endpoint, checked, lookup.started_at)

    def _checked(self, lookup: Lookup, answer: Sequence[str] | TransportError) -> tuple[Address, ...] | TransportError:
        if isinstance(answer, TransportError):
            return answer
        return self._guard.check_answer(lookup.endpoint.host, answer)

    def _send(self, request: Request, endpoint: Endpoint, addresses: tuple[Address, ...], started_at: float) -> None:
        if seconds := self._turns.seconds_to_wait(request, addresses):
            duration = time.monotonic() - started_at
            self._finished.append(Exchange(request, duration, postponed_seconds=seconds))
            return
        try:
            transfer = Transfer(request, endpoint, addresses, started_at=started_at)
        except ValueError:
            logger.exception("A request to %s could not be built", endpoint.authority)
            self._fail(request, started_at, errors.internal_error())
            return
        kept = None if request.fresh_connection else self._kept.take(endpoint.origin, addresses)
        if kept is None:
            self._open_connection(transfer)
        else:
            self._use(transfer, kept)

    def _open_connection(self, transfer: Transfer) -> None:
        multi = self._opened()
        if len(self._kept) + len(self._active) + len(self._opening) >= self.capacity:
            self._kept.drop_oldest()
        connection = self._unused.pop() if self._unused else self._new_connection(multi)
        # Through a proxy the addresses are tried in turn; without one, libcurl races them.
        share = len(transfer.addresses) if self._options.proxy else 1
        connection.prepare(transfer.endpoint, transfer.addresses, transfer.seconds_left() / share)
        self._opening[connection.curl] = transfer, connection
        multi.add(connection.curl)

    def _take_opened(self, multi: Multi) -> None:
        for curl, code, message in multi.finished():
            transfer, connection = self._opening.pop(curl)
            if code == pycurl.E_OK and connection.opened():
                transfer.timings |= connection.timings(connection.opened_from - transfer.started_at)
                self._open[connection.fd] = connection
                self._use(transfer, connection)
                continue
            error = connection.failure(code, message, transfer.request)
            connection.close()
            if further := self._further_addresses(transfer, connection, code):
                transfer.addresses = further
                self._open_connection(transfer)
            else:
                self._finished.append(transfer.exchange(error))

    def _further_addresses(self, transfer: Transfer, connection: _Connection, code: int) -> tuple[Address, ...]:
        """Return the addresses to try through the proxy after a failure."""
        if not self._options.proxy or transfer.seconds_left() <= 0:
            return ()
        if not connection.has_tunnel():
            return transfer.addresses[1:]
        # A slow handshake may use the time of the other addresses as well.
        is_late = code == pycurl.E_OPERATION_TIMEDOUT and len(transfer.addresses) > 1
        return transfer.addresses[:1] if is_late else ()

    def _use(self, transfer: Transfer, connection: _Connection) -> None:
        connection.transfer = transfer
        transfer.use(connection)
        self._active[transfer] = connection
        self._next_timeout = min(self._next_timeout, transfer.ends_at)
        self._proceed(transfer, connection)

    def _attend(self, fd: int) -> None:
        connection = self._open.get(fd)
        if connection is None:
            return
        if connection.transfer is not None:
            self._proceed(connection.transfer, connection)
        elif not connection.is_silent():  # idle: closed, or unexpected data
            self._kept.drop(connection)

    def _proceed(self, transfer: Transfer, connection: _Connection) -> None:
        if transfer.proceed():
            self._finish(transfer, connection)
        elif transfer.reader.is_stalled:
            self._opened().watch(connection.fd, pycurl.POLL_NONE)
        else:
            self._opened().watch(connection.fd, pycurl.POLL_IN if transfer.is_sent else pycurl.POLL_INOUT)
            self._next_timeout = min(self._next_timeout, transfer.ends_at)

    def _finish(self, transfer: Transfer, connection: _Connection, error: TransportError | None = None) -> None:
        exchange = transfer.exchange(error)
        self._finished.append(exchange)
        del self._active[transfer]
        connection.transfer = None
        if transfer.leaves_connection:
            self._opened().watch(connection.fd)
            self._kept.keep(connection)
            return
        connection.close()
        if exchange.error is not None and exchange.error.error_class is ErrorClass.CONNECTION_ERROR:
            self._kept.distrust(transfer.endpoint.origin)

    def _end_late(self) -> None:
        """Finish the requests that reached their deadline. Data received in time still counts."""
        now = time.monotonic()
        if now < self._next_timeout:
            return
        for transfer, connection in [item for item in self._active.items() if item[0].ends_at <= now]:
            transfer.proceed()
            self._finish(transfer, connection, errors.timed_out(transfer.request.timeout_seconds))
        self._next_timeout = min((transfer.ends_at for transfer in self._active), default=NEVER)

    def _fail(self, request: Request, started_at: float, error: TransportError) -> None:
        duration = time.monotonic() - started_at
        self._finished.append(Exchange(request=request, duration_seconds=duration, error=error))

    def _new_connection(self, multi: Multi) -> _Connection:
        return _Connection(self, multi, self._handle_options, proxied=bool(self._options.proxy))

    def _constant_options(self) -> dict[int, Any]:
        """Return the options of every handle. None depends on the environment or on libcurl's defaults."""
        options = {
            pycurl.CONNECT_ONLY: True,
            pycurl.NOSIGNAL: True,
            pycurl.PROTOCOLS: pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS,
            pycurl.HTTP_VERSION: pycurl.CURL_HTTP_VERSION_1_1,
            pycurl.NETRC: pycurl.NETRC_IGNORED,
            pycurl.USERAGENT: "",
            pycurl.PROXY: self._options.proxy,
            pycurl.NOPROXY: "",
            pycurl.SSLVERSION: pycurl.SSLVERSION_TLSv1_2,
            pycurl.SSL_VERIFYPEER: True,
            pycurl.SSL_VERIFYHOST: 2,
            pycurl.CAINFO: self._bundle.name if self._bundle else system_bundle(),
            pycurl.DNS_CACHE_TIMEOUT: 1,
        }
        if self._options.proxy:
            parse_proxy(self._options.proxy)  # libcurl would report an invalid one at each request
            options[pycurl.HTTPPROXYTUNNEL] = True
        return options


class _Connection(CurlConnection):
    """A connection of one transport, with its current request."""

    def __init__(self, transport: CurlTransport, multi: Multi, options: dict[int, Any], *, proxied: bool) -> None:
        super().__init__(options, multi.socket_opened, proxied=proxied)
        self._transport = transport
        self.transfer: Transfer | None = None

    def close(self) -> None:
        self.transfer = None
        self._transport.forget(self)
