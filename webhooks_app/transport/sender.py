"""What the exchanges of one transport share: its rules, names, connections and trust."""

from __future__ import annotations

import os
import weakref
from typing import Protocol

from .connection import Connection
from .exhaustion import free_descriptors
from .guard import AddressGuard
from .options import TransportOptions
from .pool import ConnectionPool
from .probe_turns import ProbeTurns
from .proxy import parse_proxy
from .resolver import MAX_THREADS, NameResolver, resolve_with_search_list
from .sockets import Sockets
from .tls import Sessions, tls_context


class Sender:
    """The shared objects, from the options of a transport. Raise ValueError if the proxy's URL is invalid."""

    def __init__(self, options: TransportOptions, *, at_most: int) -> None:
        """Without enough file descriptors, ``capacity`` is less than ``at_most``."""
        free = free_descriptors(MAX_THREADS)
        self.capacity = min(options.max_in_flight, at_most, free.connections)
        self.guard = AddressGuard(options)
        self.turns = ProbeTurns(options.probes_per_second)
        self.resolver = NameResolver(options.resolve, most=free.lookups)
        self.proxy = parse_proxy(options.proxy) if options.proxy else None
        self.proxy_names = NameResolver(resolve_with_search_list, most=free.lookups)
        self.sockets = Sockets()
        self.kept: ConnectionPool[Connection] = ConnectionPool(self.capacity)
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


class Forkable(Protocol):
    """A transport with a state that a forked process must not use."""

    def begin_again(self) -> None: ...


_living: weakref.WeakSet[Forkable] = weakref.WeakSet()


def begin_again_after_fork(transport: Forkable) -> None:
    """Call the transport's ``begin_again`` in every process that is forked from this one."""
    _living.add(transport)


def _after_fork() -> None:
    for transport in list(_living):
        transport.begin_again()


os.register_at_fork(after_in_child=_after_fork)
