"""Sending with `requests` in threads: needs nothing but what is installed anyway."""

from __future__ import annotations

import logging
import threading
import time
from functools import partial
from http.client import HTTPException
from typing import Any

import requests
from urllib3.exceptions import HTTPError

from ..exceptions import InvalidEndpointError
from . import failures
from .attempt import Attempt
from .base import RESPONSE_KEPT, RESPONSE_READ_LIMIT, BaseTransport, Exchange, Request, Response, TransportError
from .guard import AddressGuard
from .guarded_http import GuardedAdapter, GuardedSession
from .options import TransportOptions
from .proxy import parse_proxy
from .resolver import NameResolver
from .threads import DaemonThreads
from .trust import tls_context

logger = logging.getLogger("webhooks_app.transport")

MAX_THREADS = 64
SEND_OPTIONS: dict[str, Any] = {"allow_redirects": False, "proxies": {}, "verify": True}
BROKEN = (requests.RequestException, HTTPError, HTTPException, OSError, ValueError)
"""What requests, urllib3, http.client and sockets raise for what a receiver does."""


class RequestsTransport(BaseTransport):
    """Sends each request in a thread; a request beyond ``capacity`` begins when a thread is free."""

    name = "requests"

    def __init__(self, options: TransportOptions | None = None) -> None:
        options = options or TransportOptions()
        self.capacity = min(options.max_in_flight, MAX_THREADS)
        self._guard = AddressGuard(options)
        self._resolver = NameResolver(options.resolve)
        self._proxy = parse_proxy(options.proxy) if options.proxy else None
        self._context = tls_context(options.ca_bundle)
        self._threads = DaemonThreads("webhooks-requests", self.capacity)
        self._changed = threading.Condition()
        self._idle: list[GuardedSession] = []
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
        self._threads.submit(partial(self._run, request, time.monotonic()))

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
            sessions, self._idle = self._idle, []
            attempts, self._attempts = self._attempts, set()
            self._finished.clear()
            self._in_flight = 0
        for session in sessions:
            session.close()
        for attempt in attempts:
            attempt.abandon()

    def _run(self, request: Request, started_at: float) -> None:
        try:
            exchange = self._exchange(request, started_at)
        except Exception:
            logger.exception("A request could not be sent")
            duration = time.monotonic() - started_at
            exchange = Exchange(request=request, duration_seconds=duration, error=failures.internal_error())
        with self._changed:
            if not self._closed:
                self._finished.append(exchange)
                self._changed.notify_all()

    def _exchange(self, request: Request, started_at: float) -> Exchange:
        try:
            attempt = Attempt(request, self._guard.endpoint(request.url), started_at)
        except InvalidEndpointError as error:
            return Exchange(request=request, duration_seconds=0.0, error=failures.url_refused(str(error)))
        session = self._take_session(attempt)
        try:
            result = _result(session, attempt)
        finally:
            self._give_back(session, attempt)
        return Exchange(
            request=request,
            duration_seconds=attempt.duration_seconds,
            response=result if isinstance(result, Response) else None,
            error=result if isinstance(result, TransportError) else None,
            peer=attempt.peer,
            timings=attempt.timings,
        )

    def _take_session(self, attempt: Attempt) -> GuardedSession:
        with self._changed:
            self._attempts.add(attempt)
            session = self._idle.pop() if self._idle else None
        if session is None:
            session = GuardedSession(GuardedAdapter(self._guard, self._resolver, self._context, self._proxy))
        session.adapter.attempt = attempt
        return session

    def _give_back(self, session: GuardedSession, attempt: Attempt) -> None:
        with self._changed:
            self._attempts.discard(attempt)
            if not self._closed:
                self._idle.append(session)
                return
        session.close()


def _result(session: GuardedSession, attempt: Attempt) -> Response | TransportError:
    """Send the request and return what came of it. What follows a complete header cannot change the outcome."""
    body = bytearray()
    answer: requests.Response | None = None
    timed_out = False
    prepared = _prepared(attempt)
    try:
        answer = session.send(prepared, stream=True, timeout=attempt.request.timeout_seconds, **SEND_OPTIONS)
        _read_body(answer, body)
    except BROKEN as error:
        timed_out = isinstance(error, (requests.Timeout, TimeoutError))
        if isinstance(error, requests.exceptions.SSLError) and not attempt.ready:
            attempt.fail(attempt.error or failures.handshake_failed())
    finally:
        if answer is not None:
            answer.close()
    if attempt.header.complete:
        return Response(status=attempt.header.status, headers=attempt.header.headers, body=bytes(body))
    if answer is not None:  # it came from a library that stands in for the network
        return Response(status=answer.status_code, headers=tuple(answer.headers.items()), body=bytes(body))
    return attempt.failure(timed_out=timed_out)


def _prepared(attempt: Attempt) -> requests.PreparedRequest:
    prepared = requests.PreparedRequest()
    endpoint = attempt.endpoint
    attempt.request.encoded_headers()  # requests and http.client would refuse less, and later
    prepared.prepare_method("POST")
    prepared.url = endpoint.origin + endpoint.target  # requests' own parser has no say
    prepared.prepare_headers({"Accept": "*/*", **dict(attempt.request.headers)})
    prepared.prepare_body(attempt.request.body, None)
    return prepared


def _read_body(answer: requests.Response, body: bytearray) -> None:
    read = 0
    while read < RESPONSE_READ_LIMIT:
        data = answer.raw.read1(RESPONSE_READ_LIMIT - read, decode_content=False)
        if not data:
            return
        read += len(data)
        body += data[: RESPONSE_KEPT - len(body)]
