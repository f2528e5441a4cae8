"""The transport for hosts that intercept `requests`, for example in tests. It needs one thread for each request."""

from __future__ import annotations

import contextlib
import logging
import select
import threading
import time
from concurrent import futures
from functools import partial
from http.client import HTTPException
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from requests.structures import CaseInsensitiveDict
from urllib3.exceptions import HTTPError

from ..exceptions import InvalidEndpointError
from . import errors
from .base import RESPONSE_READ_LIMIT, Exchange, Request, Response, TransportError, TransportOptions
from .connections import Ready, Wait
from .endpoint import Endpoint
from .errors import exhaustion_log
from .resolver import DaemonThreads
from .sender import SendingTransport
from .transfer import Transfer

logger = logging.getLogger("webhooks_app.transport")

MAX_THREADS = 64
BROKEN = (requests.RequestException, HTTPError, HTTPException, OSError, ValueError)
"""The exceptions of requests, urllib3 and http.client, which a test library can raise as well."""


class RequestsTransport(SendingTransport):
    """Send each request in a thread. A request beyond ``capacity`` starts as soon as a thread is free."""

    name = "requests"

    def __init__(self, options: TransportOptions | None = None) -> None:
        super().__init__(options, at_most=MAX_THREADS)
        self._adapter = TransferAdapter()
        self._threads = DaemonThreads("webhooks-requests", self.capacity)
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self.begin_again_after_forks()

    def start(self, request: Request) -> None:
        self._in_flight += 1
        transfer = Transfer(request, self._sender)
        try:
            self._threads.submit(partial(self._run, transfer))
        except OSError as error:
            exhaustion_log.add(error)
            self._finish(transfer.exchange(errors.internal_error()))

    def wait(self, timeout_seconds: float) -> list[Exchange]:
        with self._changed:
            self._changed.wait_for(lambda: self._finished or self._woken, timeout_seconds)
            return self._take_finished()

    def wake(self) -> None:
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def close(self) -> None:
        self._closing.set()
        self._threads.close()
        self._sender.close()
        self._sender.sockets.shut_down()
        with self._changed:
            self._finished.clear()
            self._in_flight = 0
        self._adapter.close()

    def _run(self, transfer: Transfer) -> None:
        request = transfer.request
        try:
            endpoint = self._sender.guard.endpoint(request.url)
            exchange = self._adapter.exchange(transfer, endpoint, self._closing)
        except InvalidEndpointError as refused:
            exchange = transfer.exchange(errors.url_refused(str(refused)))
        except Exception:  # the thread must survive any error
            logger.exception("A request could not be sent")
            exchange = transfer.exchange(errors.internal_error())
        self._finish(exchange)

    def _finish(self, exchange: Exchange) -> None:
        with self._changed:
            if not self._closing.is_set():
                self._finished.append(exchange)
                self._changed.notify_all()


class TransferRequest(requests.PreparedRequest):
    """A transfer's request in the form that `requests` expects. The URL parser of `requests` is not used."""

    def __init__(self, transfer: Transfer, endpoint: Endpoint, closing: threading.Event) -> None:
        super().__init__()
        request = transfer.request
        self.transfer = transfer
        self.closing = closing
        self.method = "POST"
        self.url = endpoint.origin + endpoint.target
        self.headers = CaseInsensitiveDict(request.headers)
        self.headers["Content-Length"] = str(len(request.body))
        self.body = request.body


class TransferAdapter(HTTPAdapter):
    """Run transfers from any thread. Test libraries replace ``send``, beneath which nothing of `requests` is used."""

    def exchange(self, transfer: Transfer, endpoint: Endpoint, closing: threading.Event) -> Exchange:
        """Return the result of a transfer, or of the test library that answered instead."""
        request = transfer.request
        try:
            response = self.send(
                TransferRequest(transfer, endpoint, closing), stream=True, timeout=request.timeout_seconds
            )
            if isinstance(response.raw, Exchange):
                return response.raw
            with contextlib.closing(response.raw):
                return transfer.exchange(None, _from_test_library(response, request.response_kept))
        except BROKEN as error:
            return transfer.exchange(_error_of_test_library(error, request.timeout_seconds))

    def get_connection_with_tls_context(self, request: Any, *_args: Any, **_kwargs: Any) -> Any:
        """Return an object that sends this one request."""
        return _Wire(request)

    def request_url(self, request: Any, *_args: Any) -> str:
        return str(request.url)

    def cert_verify(self, *_args: Any, **_kwargs: Any) -> None:
        """Do nothing. The transfer verifies certificates."""

    def build_response(self, req: requests.PreparedRequest, resp: Any) -> requests.Response:
        """Return the response. A ``resp`` of another type comes from a test library such as `responses`."""
        if not isinstance(resp, Exchange):
            return super().build_response(req, resp)
        response = requests.Response()
        response.raw = resp
        return response


class _Wire:
    """The object that `requests` uses as a connection pool. It runs a single transfer."""

    def __init__(self, request: TransferRequest) -> None:
        self._request = request

    def urlopen(self, **_: object) -> Exchange:
        """Return the result of the transfer, which blocks the thread while it waits."""
        transfer, closing = self._request.transfer, self._request.closing
        steps = transfer.steps()
        try:
            wait = next(steps)
            while not closing.is_set():
                wait = steps.send(ready_of(wait, closing))
        except StopIteration as stop:
            result: Exchange = stop.value
            return result
        steps.close()
        return transfer.exchange(errors.internal_error())


def ready_of(wait: Wait, closing: threading.Event) -> Ready:
    """Return the sockets that are ready, waiting for the first of them, the name or the end of the wait."""
    seconds = max(0.0, wait.until - time.monotonic())
    if wait.answer is not None:
        futures.wait([wait.answer], seconds)
    elif wait.sockets:
        poll = select.poll()
        for fd, events in wait.sockets.items():
            poll.register(fd, events)
        return [fd for fd, _ in poll.poll(seconds * 1000)]
    else:
        closing.wait(seconds)
    return ()


def _from_test_library(response: requests.Response, kept: int) -> Response:
    read, body = 0, bytearray()
    try:
        for data in response.raw.stream(RESPONSE_READ_LIMIT, decode_content=False):
            read += len(data)
            body += data[: kept - len(body)]
            if read >= RESPONSE_READ_LIMIT:
                break
    except BROKEN:
        pass  # the header decides
    return Response(status=response.status_code, headers=tuple(response.headers.items()), body=bytes(body))


def _error_of_test_library(error: Exception, seconds: float) -> TransportError:
    if isinstance(error, requests.Timeout):
        return errors.connect_timed_out(seconds)
    if isinstance(error, requests.exceptions.SSLError):
        return errors.handshake_failed()
    return errors.connection_lost()
