"""One request of the curl transport, from its first byte to the end of its response."""

from __future__ import annotations

import time
from collections.abc import Sequence

from . import errors
from .answer import AnswerReader
from .base import Exchange, Request, TransportError
from .curl_connection import CurlConnection
from .endpoint import Endpoint
from .libcurl import pycurl
from .refused_addresses import Address
from .wire_format import wire_format


class Transfer:
    """A request in progress, and its reader. Raise ValueError if a header violates HTTP."""

    __slots__ = (
        "_has_header",
        "_unsent",
        "addresses",
        "connection",
        "endpoint",
        "ends_at",
        "reader",
        "request",
        "started_at",
        "timings",
        "was_kept",
    )

    def __init__(
        self, request: Request, endpoint: Endpoint, addresses: Sequence[Address], *, started_at: float
    ) -> None:
        self.request = request
        self.endpoint = endpoint
        self.addresses = tuple(addresses)
        self.started_at = started_at
        self.ends_at = started_at + request.timeout_seconds
        self.reader = AnswerReader(request.response_kept)
        self.connection: CurlConnection | None = None
        self.was_kept = False
        self.timings: dict[str, float] = {}
        self._has_header = False
        self._unsent = memoryview(wire_format(request, endpoint))
        if not endpoint.is_address:
            self.timings["dns"] = time.monotonic() - started_at

    @property
    def is_sent(self) -> bool:
        return not self._unsent

    @property
    def leaves_connection(self) -> bool:
        """Whether the connection can be reused."""
        return self.reader.leaves_connection and self.is_sent

    def use(self, connection: CurlConnection) -> None:
        """Assign an open connection to the request."""
        self.connection = connection
        self.was_kept = connection.requests > 0
        connection.requests += 1

    def seconds_left(self) -> float:
        return self.ends_at - time.monotonic()

    def proceed(self) -> bool:
        """Send and read without blocking. Return True if the response is complete or the connection has ended."""
        self._send()
        return self._receive()

    def exchange(self, error: TransportError | None = None) -> Exchange:
        """Return the result: the response if its header is complete, otherwise the error."""
        response = self.reader.response
        return Exchange(
            request=self.request,
            duration_seconds=time.monotonic() - self.started_at,
            response=response,
            error=None if response else self.reader.problem or error or self._lost(),
            peer=self.connection.peer if self.connection else "",
            timings=self.timings,
            received=self.reader.received,
        )

    def _lost(self) -> TransportError:
        return errors.connection_lost(was_kept=self.was_kept)

    def _send(self) -> None:
        assert self.connection is not None
        try:
            while self._unsent:
                self._unsent = self._unsent[self.connection.send(self._unsent) :]
        except BlockingIOError:
            pass
        except pycurl.error:
            pass  # the receiver may have answered early. Reading follows

    def _receive(self) -> bool:
        assert self.connection is not None
        reader = self.reader
        try:
            while not (reader.is_over or reader.is_stalled):
                data = self.connection.receive(reader.wanted)
                if not data:
                    return True
                if "first_byte" not in self.timings:
                    self.timings["first_byte"] = time.monotonic() - self.started_at
                reader.feed(data)
                if reader.header.complete and not self._has_header:
                    self._has_header = True
                    self.ends_at = min(self.ends_at, time.monotonic() + self.request.body_seconds)
        except BlockingIOError:
            return False
        except pycurl.error:
            return True
        return reader.is_over
