"""The adapter of `requests` for attempts: what it calls a pool connects only where the attempt may."""

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
    """An attempt's request in the shape of `requests`, whose own parser of URLs has no say."""

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
    """Sends attempts, from any thread. It looks at nothing in the environment, at no cookie and at no Location."""

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
        """Send the attempt's request and return the answer, its body unread. Raises OSError."""
        return self.send(AttemptRequest(attempt), stream=True, timeout=attempt.request.timeout_seconds)

    def get_connection_with_tls_context(self, request: Any, *_args: Any, **_kwargs: Any) -> Any:
        """Return what sends this one request."""
        return _Wire(self, request.attempt)

    def request_url(self, request: Any, *_args: Any) -> str:
        """Return the endpoint's target, whose escapes others would rewrite."""
        target: str = request.attempt.endpoint.target
        return target

    def cert_verify(self, *_args: Any, **_kwargs: Any) -> None:
        """Do nothing: the context holds the trust store, which would be read again for each connection."""

    def build_response(self, req: requests.PreparedRequest, resp: Any) -> requests.Response:
        """Return the answer as `requests` has it. One that is not from the wire comes from a test's library."""
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
        """Return a connection, kept or new, to one of the addresses that the attempt may reach. Raises OSError."""
        attempt.resolve(self._resolver, self._guard)
        attempt.take_turn(self._turns)
        kept = None
        if not attempt.request.fresh_connection:
            kept = self.kept.take(attempt.endpoint.origin, attempt.addresses)
        connection = kept or self._open(attempt)
        attempt.use(connection.sock, connection.peer, was_kept=kept is not None)
        return connection

    def _open(self, attempt: Attempt) -> Connection:
        if self._proxy is None:
            sock, address = attempt.connect()
        else:
            sock, address = attempt.connect_through(self._proxy, self._proxy_names)
        if attempt.endpoint.scheme == "https":
            sock = attempt.secure(sock, self._context)
        return Connection(sock, origin=attempt.endpoint.origin, address=address, peer=attempt.peer)


class _Wire:
    """What `requests` takes for a connection pool. It sends one request, once."""

    def __init__(self, adapter: GuardedAdapter, attempt: Attempt) -> None:
        self._adapter = adapter
        self._attempt = attempt

    def urlopen(self, **_: object) -> Answer:
        connection = self._adapter.connection_for(self._attempt)
        answer = Answer(connection, self._attempt, release=self._adapter.kept.keep)
        try:
            connection.send(self._attempt.wire_format, self._attempt)
        except OSError:
            answer.is_doubtful = True  # the receiver may have answered before all had been sent
        try:
            answer.read_header()
        except BaseException as error:
            connection.close()
            if isinstance(error, OSError) and self._attempt.is_lost(error):
                self._adapter.kept.distrust(self._attempt.endpoint.origin)
            raise
        return answer
