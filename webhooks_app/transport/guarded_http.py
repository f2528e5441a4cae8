"""The `requests` adapter for attempts. In place of a connection pool it opens only permitted connections."""

from __future__ import annotations

import ssl
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from requests.structures import CaseInsensitiveDict

from .connection import Answer, Connection
from .guard import AddressGuard
from .pool import ConnectionPool
from .probe_turns import ProbeTurns
from .proxy import Proxy
from .resolver import NameResolver, resolve_with_search_list
from .wire_request import Attempt


class AttemptRequest(requests.PreparedRequest):
    """An attempt's request in the form that `requests` expects. The URL parser of `requests` is not used."""

    def __init__(self, attempt: Attempt) -> None:
        super().__init__()
        request, endpoint = attempt.request, attempt.endpoint
        self.attempt = attempt
        self.method = "POST"
        self.url = endpoint.origin + endpoint.target
        self.headers = CaseInsensitiveDict(request.headers)
        self.headers["Content-Length"] = str(len(request.body))
        self.body = request.body


class GuardedAdapter(HTTPAdapter):
    """Send attempts from any thread. Ignore the environment and cookies, and never follow a redirect."""

    def __init__(
        self,
        guard: AddressGuard,
        resolver: NameResolver,
        context: ssl.SSLContext,
        proxy: Proxy | None,
        kept: ConnectionPool[Connection],
        turns: ProbeTurns,
    ) -> None:
        super().__init__()
        self._guard = guard
        self._resolver = resolver
        self._context = context
        self._proxy = proxy
        self._proxy_names = NameResolver(resolve_with_search_list)
        self.kept = kept
        self._turns = turns

    def answer_to(self, attempt: Attempt) -> requests.Response:
        """Send the attempt's request and return the response, its body unread. Raise OSError on failure."""
        return self.send(AttemptRequest(attempt), stream=True, timeout=attempt.request.timeout_seconds)

    def get_connection_with_tls_context(self, request: Any, *_args: Any, **_kwargs: Any) -> Any:
        """Return an object that sends this one request."""
        return _Wire(self, request.attempt)

    def request_url(self, request: Any, *_args: Any) -> str:
        """Return the endpoint's unchanged target. `requests` would rewrite its escapes."""
        target: str = request.attempt.endpoint.target
        return target

    def cert_verify(self, *_args: Any, **_kwargs: Any) -> None:
        """Do nothing. The context contains the trust store, which `requests` would load for each connection."""

    def build_response(self, req: requests.PreparedRequest, resp: Any) -> requests.Response:
        """Return the response. A ``resp`` of another type comes from a test library such as `responses`."""
        if not isinstance(resp, Answer):
            return super().build_response(req, resp)
        response = requests.Response()
        response.raw = resp
        return response

    def close(self) -> None:
        super().close()
        self._proxy_names.close()
        self.kept.close()

    def connection_for(self, attempt: Attempt) -> Connection:
        """Return a connection, reused or new, to a permitted address of the attempt. Raise OSError on failure."""
        attempt.resolve(self._resolver, self._guard)
        attempt.take_turn(self._turns)
        kept = None
        if not attempt.request.fresh_connection:
            kept = self.kept.take(attempt.endpoint.origin, attempt.addresses)
        connection = kept or self._open(attempt)
        attempt.use(connection.sock, connection.peer, was_kept=kept is not None)
        return connection

    def _open(self, attempt: Attempt) -> Connection:
        try:
            if self._proxy is None:
                sock, address = attempt.connect()
            else:
                sock, address = attempt.connect_through(self._proxy, self._proxy_names)
            if attempt.endpoint.scheme == "https":
                sock = attempt.secure(sock, self._context)
        except BaseException:
            attempt.close()
            raise
        return Connection(sock, origin=attempt.endpoint.origin, address=address, peer=attempt.peer)


class _Wire:
    """The object that `requests` uses as a connection pool. It sends a single request."""

    def __init__(self, adapter: GuardedAdapter, attempt: Attempt) -> None:
        self._adapter = adapter
        self._attempt = attempt

    def urlopen(self, **_: object) -> Answer:
        connection = self._adapter.connection_for(self._attempt)
        answer = Answer(connection, self._attempt, release=self._adapter.kept.keep)
        try:
            connection.send(self._attempt.wire_format, self._attempt)
        except OSError:
            answer.is_doubtful = True  # the receiver may have answered early
        try:
            answer.read_header()
        except BaseException as error:
            connection.close()
            if isinstance(error, OSError) and self._attempt.is_lost(error):
                self._adapter.kept.distrust(self._attempt.endpoint.origin)
            raise
        return answer
