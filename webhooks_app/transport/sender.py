"""What all transports with connections share: guard, names, proxy, connections, trust, and the handling of forks."""

from __future__ import annotations

import os
import resource
import sys
import weakref
from base64 import b64encode
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from .base import BaseTransport, Exchange, TransportOptions
from .connections import ConnectionPool, Sockets
from .endpoint import AddressGuard
from .probe_turns import ProbeTurns
from .resolver import MAX_LOOKUPS, NameResolver
from .system_names import resolve_with_search_list
from .tls import Sessions, tls_context

RESERVED_DESCRIPTORS = 32
"""Descriptors for database connections, files and the host's own code, besides those open at the start."""

LOOKUPS_SHARE = 4
"""Lookups of names may use a quarter of the free descriptors."""


class Descriptors(NamedTuple):
    """The sockets that the limit on open files (``ulimit -n``) leaves to a transport."""

    connections: int
    lookups: int


def free_descriptors(most_lookups: int) -> Descriptors:
    """Return the sockets that this process can still open, less a reserve."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return Descriptors(sys.maxsize, most_lookups)
    free = max(2, limit - sum(1 for _ in Path("/dev/fd").iterdir()) - RESERVED_DESCRIPTORS)
    lookups = min(most_lookups, free // LOOKUPS_SHARE)
    return Descriptors(max(1, free - lookups), max(1, lookups))


@dataclass(frozen=True, kw_only=True)
class Proxy:
    """The proxy's address. ``authorization`` is the complete header value, or empty."""

    host: str
    port: int
    authorization: str = field(default="", repr=False)


def parse_proxy(url: str) -> Proxy:
    """Return the parts of ``http://[user:password@]host:port``. Raise ValueError for any other form."""
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname or not parts.port or parts.path not in ("", "/"):
        raise ValueError("The egress proxy's URL is not of the form http://[user:password@]host:port. Correct it.")
    authorization = ""
    if parts.username is not None:
        credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = f"Basic {b64encode(credentials.encode()).decode('ascii')}"
    return Proxy(host=parts.hostname, port=parts.port, authorization=authorization)


class Sender:
    """The shared objects, from the options of a transport. Raise ValueError if the proxy's URL is invalid."""

    def __init__(self, options: TransportOptions, *, at_most: int) -> None:
        """Without enough file descriptors, ``capacity`` is less than ``at_most``."""
        free = free_descriptors(MAX_LOOKUPS)
        self.capacity = min(options.max_in_flight, at_most, free.connections)
        self.guard = AddressGuard(options)
        self.turns = ProbeTurns(options.probes_per_second)
        self.resolver = NameResolver(options.resolve, most=free.lookups)
        self.proxy = parse_proxy(options.proxy) if options.proxy else None
        self.proxy_names = NameResolver(resolve_with_search_list, most=free.lookups)
        self.sockets = Sockets()
        self.kept = ConnectionPool(self.capacity)
        self.sessions = Sessions()
        self.context = tls_context(options.ca_bundle)

    def make_room(self) -> None:
        """Close an idle connection if all file descriptors are in use."""
        if len(self.sockets) >= self.capacity:
            self.kept.drop_oldest()

    def close(self) -> None:
        """Close the idle connections, and start no more lookups."""
        self.kept.close()
        self.resolver.close()
        self.proxy_names.close()


class SendingTransport(BaseTransport):
    """A transport with a ``Sender``. In a forked process it begins again, without the requests of its parent.

    The ``__init__`` of a subclass ends with ``begin_again_after_forks``.
    """

    def __init__(self, options: TransportOptions | None, *, at_most: int) -> None:
        self._options = options or TransportOptions()
        self._sender = Sender(self._options, at_most=at_most)
        self.capacity = self._sender.capacity
        self._finished: list[Exchange] = []
        self._in_flight = 0
        self._woken = False

    @property
    def in_flight(self) -> int:
        return self._in_flight

    def begin_again_after_forks(self) -> None:
        _living.add(self)

    def begin_again(self) -> None:
        """Close what a forked process has inherited, without a word to the receivers, and begin without requests."""
        self._sender.sockets.close_inherited()
        self.__init__(self._options)  # type: ignore[misc]

    def _take_finished(self) -> list[Exchange]:
        """Return the exchanges that ``wait`` returns, and forget the last ``wake``."""
        self._woken = False
        finished, self._finished = self._finished, []
        self._in_flight -= len(finished)
        return finished


_living: weakref.WeakSet[SendingTransport] = weakref.WeakSet()


def _after_fork() -> None:
    for transport in list(_living):
        transport.begin_again()


os.register_at_fork(after_in_child=_after_fork)
