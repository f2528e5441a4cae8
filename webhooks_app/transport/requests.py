"""The transport based on `requests` and threads. It has no further dependencies."""

from __future__ import annotations

import logging
import threading
import time
from functools import partial
from http.client import HTTPException

import requests
from urllib3.exceptions import HTTPError

from ..exceptions import InvalidEndpointError
from . import errors
from .base import RESPONSE_KEPT, RESPONSE_READ_LIMIT, BaseTransport, Exchange, Request, Response, TransportError
from .connection import Answer
from .exhaustion import exhaustion_log, free_descriptors
from .guard import AddressGuard
from .guarded_http import GuardedAdapter
from .options import TransportOptions
from .pool import ConnectionPool
from .probe_turns import ProbeTurns
from .proxy import parse_proxy
from .resolver import MAX_THREADS as MAX_LOOKUPS
from .resolver import NameResolver
from .threads import DaemonThreads
from .tls import tls_context
from .wire_request import Attempt

logger = logging.getLogger("webhooks_app.transport")

MAX_THREADS = 64
BROKEN = (requests.RequestException, HTTPError, HTTPException, OSError, ValueError)
"""The exceptions of requests, urllib3, http.client and sockets that a receiver can cause."""


class RequestsTransport(BaseTransport):
    """Send each request in a thread. A request beyond ``capacity`` starts as soon as a thread is free."""

    name = "requests"

    def __init__(self, options: TransportOptions | None = None) -> None:
        options = options or TransportOptions()
        free = free_descriptors(MAX_LOOKUPS)
        self.capacity = min(options.max_in_flight, MAX_THREADS, free.connections)
        self._guard = AddressGuard(options)
        self._resolver = NameResolver(options.resolve, most=free.lookups)
        self._adapter = GuardedAdapter(
            self._guard,
            self._resolver,
            tls_context(options.ca_bundle),
            parse_proxy(options.proxy) if options.proxy else None,
            ConnectionPool(self.capacity),
            ProbeTurns(options.probes_per_second),
        )
        self._threads = DaemonThreads("webhooks-requests", self.capacity)
        self._changed = threading.Condition()
        self._attempts: set[Attempt] = set()
        self._finished: list[Exchange] = []
        self._in_flight = 0
        self._woken = False
        self._closed = False

    @property
    def in_flight(self) -> int:
        return self._in_flight

    def start(self, request: Request) -> None:
        self._in_flight += 1
        started_at = time.monotonic()
        try:
            self._threads.submit(partial(self._run, request, started_at))
        except OSError as error:
            exhaustion_log.add(error)
            self._finish(_internal_error(request, started_at))

    def wait(self, timeout_seconds: float) -> list[Exchange]:
        with self._changed:
            self._changed.wait_for(lambda: self._finished or self._woken, timeout_seconds)
            self._woken = False
            finished, self._finished = self._finished, []
        self._in_flight -= len(finished)
        return finished

    def wake(self) -> None:
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def close(self) -> None:
        self._threads.close()
        self._resolver.close()
        with self._changed:
            self._closed = True
            attempts, self._attempts = self._attempts, set()
            self._finished.clear()
            self._in_flight = 0
        for attempt in attempts:
            attempt.abandon()
        self._adapter.close()

    def _run(self, request: Request, started_at: float) -> None:
        try:
            exchange = self._exchange(request, started_at)
        except Exception:  # the thread must survive any error
            logger.exception("A request could not be sent")
            exchange = _internal_error(request, started_at)
        self._finish(exchange)

    def _finish(self, exchange: Exchange) -> None:
        with self._changed:
            if not self._closed:
                self._finished.append(exchange)
                self._changed.notify_all()

    def _exchange(self, request: Request, started_at: float) -> Exchange:
        try:
            attempt = Attempt(request, self._guard.endpoint(request.url), started_at)
        except InvalidEndpointError as error:
            return Exchange(request=request, duration_seconds=0.0, error=errors.url_refused(str(error)))
        with self._changed:
            self._attempts.add(attempt)
        try:
            result = _result(self._adapter, attempt)
        finally:
            with self._changed:
                self._attempts.discard(attempt)
        return Exchange(
            request=request,
            duration_seconds=attempt.duration_seconds,
            response=result if isinstance(result, Response) else None,
            error=result if isinstance(result, TransportError) else None,
            peer=attempt.peer,
            timings=attempt.timings,
            received=attempt.reader.received,
            postponed_seconds=attempt.postponed_seconds,
        )


def _internal_error(request: Request, started_at: float) -> Exchange:
    duration = time.monotonic() - started_at
    return Exchange(request=request, duration_seconds=duration, error=errors.internal_error())


def _result(adapter: GuardedAdapter, attempt: Attempt) -> Response | TransportError | None:
    """Send the request and return its result, None if it is postponed. A complete header decides the outcome."""
    body = bytearray()
    answer: requests.Response | None = None
    timed_out = False
    try:
        answer = adapter.answer_to(attempt)
        if isinstance(answer.raw, Answer):
            answer.raw.read_body()
        else:
            _read_body(answer, body)
    except BROKEN as error:
        timed_out = isinstance(error, requests.Timeout)
        if isinstance(error, requests.exceptions.SSLError) and not attempt.ready:
            attempt.fail(attempt.error or errors.handshake_failed())
    finally:
        if answer is not None:
            answer.raw.close()
    if attempt.postponed_seconds:
        return None
    if attempt.reader.response is not None:
        return attempt.reader.response
    if answer is not None:  # it came from a test library
        return Response(status=answer.status_code, headers=tuple(answer.headers.items()), body=bytes(body))
    return attempt.failure(timed_out=timed_out)


def _read_body(answer: requests.Response, body: bytearray) -> None:
    read = 0
    for data in answer.raw.stream(RESPONSE_READ_LIMIT, decode_content=False):
        read += len(data)
        body += data[: RESPONSE_KEPT - len(body)]
        if read >= RESPONSE_READ_LIMIT:
            return
