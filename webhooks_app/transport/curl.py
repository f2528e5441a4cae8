"""Sending with libcurl: thousands of requests in flight in one thread."""

from __future__ import annotations

import logging
import resource
import sys
import time
from collections.abc import Sequence
from typing import Any

import pycurl

from ..exceptions import InvalidEndpointError
from . import failures
from .base import BaseTransport, Exchange, Request, TransportError
from .endpoint import Endpoint
from .guard import AddressGuard
from .ip_filter import Address
from .kept_sockets import KeptSockets
from .lookups import Lookup, PendingLookups
from .multi import Multi
from .options import IDLE_CONNECTION_SECONDS, TransportOptions
from .proxy import parse_proxy
from .resolver import NameResolver
from .transfer import Transfer
from .trust import combined_bundle, system_bundle

logger = logging.getLogger("webhooks_app.transport")

MAX_KEEPING = 10_000
RESERVED_DESCRIPTORS = 64
UPLOAD_BUFFER_BYTES = 16 * 1024  # libcurl keeps 64 KiB for each connection by default


class CurlTransport(BaseTransport):
    """Sends with libcurl's multi interface, which is made in the process that first uses it."""

    name = "curl"

    def __init__(self, options: TransportOptions | None = None) -> None:
        self._options = options or TransportOptions()
        self.capacity = min(self._options.max_in_flight, _sockets_allowed())
        self._guard = AddressGuard(self._options)
        self._bundle = combined_bundle(self._options.ca_bundle) if self._options.ca_bundle else None
        self._handle_options = self._constant_options()
        self._resolver = NameResolver(self._options.resolve)
        self._lookups = PendingLookups(self._resolver, self._interrupt)
        self._multi: Multi | None = None
        self._idle: list[Transfer] = []
        self._active: dict[pycurl.Curl, Transfer] = {}
        self._keeping: set[str] = set()
        self._kept_sockets = KeptSockets()
        self._finished: list[Exchange] = []
        self._in_flight = 0
        self._woken = False

    @property
    def in_flight(self) -> int:
        return self._in_flight

    def start(self, request: Request) -> None:
        """Begin to send; the bytes go out in the ``wait`` that follows."""
        self._in_flight += 1
        started_at = time.monotonic()
        try:
            endpoint = self._guard.endpoint(request.url)
        except InvalidEndpointError as error:
            self._fail(request, started_at, failures.url_refused(str(error)))
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
            multi.run(self._next_time(deadline))
            self._take_finished(multi)
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
        if self._multi is not None:
            self._multi.close()
            self._multi = None
        self._resolver.close()
        if self._bundle is not None:
            self._bundle.close()
        self._active.clear()
        self._idle.clear()
        self._finished.clear()
        self._in_flight = 0

    def _opened(self) -> Multi:
        if self._multi is None:
            self._multi = Multi(kept_connections=self.capacity)
        return self._multi

    def _interrupt(self) -> None:
        if self._multi is not None:
            self._multi.interrupt()

    def _next_time(self, deadline: float) -> float:
        if self._finished or self._woken:
            return 0.0
        return min(deadline, self._lookups.next_deadline or deadline)

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
        transfer = self._idle.pop() if self._idle else self._new_transfer()
        try:
            fresh = endpoint.origin not in self._keeping
            transfer.prepare(request, endpoint, addresses, started_at=started_at, fresh=fresh)
        except ValueError:
            logger.exception("A request to %s could not be built", endpoint.authority)
            self._fail(request, started_at, failures.internal_error())
            self._idle.append(transfer)
            return
        self._active[transfer.curl] = transfer
        self._opened().add(transfer.curl)

    def _take_finished(self, multi: Multi) -> None:
        for curl, code, message, fd in multi.finished():
            transfer = self._active[curl]
            if transfer.met_doubtful_connection or (transfer.met_other_peer and not transfer.fresh):
                # A kept connection is not silent, or leads to an address that is not in today's answer. Nothing
                # was sent on it.
                transfer.begin(fresh=True)
                multi.add(curl)
            elif transfer.turns_to_next_address():
                multi.add(curl)
            else:
                transfer = self._active.pop(curl)
                self._note_keeping(transfer, fd)
                self._finish(transfer, code, message)

    def _finish(self, transfer: Transfer, code: int, message: str) -> None:
        response = transfer.response(code)
        exchange = Exchange(
            request=transfer.request,
            duration_seconds=time.monotonic() - transfer.started_at,
            response=response,
            error=None if response else transfer.failure(code, message),
            peer=transfer.peer,
            timings=transfer.timings(),
        )
        self._finished.append(exchange)
        transfer.release()
        self._idle.append(transfer)

    def _note_keeping(self, transfer: Transfer, fd: int) -> None:
        """Remember which receivers keep connections: libcurl looks at one used a second ago and takes it for alive."""
        if not transfer.keeps_connection(fd):
            self._keeping.discard(transfer.endpoint.origin)
        elif len(self._keeping) < MAX_KEEPING:
            self._keeping.add(transfer.endpoint.origin)

    def _fail(self, request: Request, started_at: float, error: TransportError) -> None:
        duration = time.monotonic() - started_at
        self._finished.append(Exchange(request=request, duration_seconds=duration, error=error))

    def _new_transfer(self) -> Transfer:
        return Transfer(
            self._handle_options,
            self._opened().socket_opened,
            self._kept_sockets,
            proxied=bool(self._options.proxy),
        )

    def _constant_options(self) -> dict[int, Any]:
        """Return what every handle is told once; whatever the environment or libcurl's defaults may say."""
        options = {
            pycurl.NOSIGNAL: True,
            pycurl.POST: True,
            pycurl.PROTOCOLS: pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS,
            pycurl.HTTP_VERSION: pycurl.CURL_HTTP_VERSION_1_1,
            pycurl.HTTP09_ALLOWED: False,
            pycurl.HTTP_CONTENT_DECODING: False,
            pycurl.HTTP_TRANSFER_DECODING: False,  # libcurl drops what is not content, however much it be
            pycurl.FOLLOWLOCATION: False,
            pycurl.NETRC: pycurl.NETRC_IGNORED,
            pycurl.USERAGENT: "",
            pycurl.PROXY: self._options.proxy,
            pycurl.NOPROXY: "",
            pycurl.SSLVERSION: pycurl.SSLVERSION_TLSv1_2,
            pycurl.SSL_VERIFYPEER: True,
            pycurl.SSL_VERIFYHOST: 2,
            pycurl.CAINFO: self._bundle.name if self._bundle else system_bundle(),
            pycurl.DNS_CACHE_TIMEOUT: 1,
            pycurl.MAXAGE_CONN: IDLE_CONNECTION_SECONDS,
            pycurl.UPLOAD_BUFFERSIZE: UPLOAD_BUFFER_BYTES,
        }
        if self._options.proxy:
            parse_proxy(self._options.proxy)  # libcurl would only complain of a bad one at each request
            options[pycurl.HTTPPROXYTUNNEL] = True
        return options


def _sockets_allowed() -> int:
    """Return how many connections the process may hold beside what else it has open (``ulimit -n``)."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if limit == resource.RLIM_INFINITY else max(1, limit - RESERVED_DESCRIPTORS)
