"""How an exchange waits. It is a generator of waits, which an event loop or a thread continues when one has ended."""

from __future__ import annotations

import select
from collections.abc import Collection, Generator, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeAlias, TypeVar

from .resolver import LookupAnswer

T = TypeVar("T")

READ, WRITE = select.POLLIN, select.POLLOUT

NO_SOCKETS: Mapping[int, int] = MappingProxyType({})


class Wait(NamedTuple):
    """A wait until one of the sockets is ready or the name is resolved, but at most ``until``.

    With 0.0 there is more to do at once, after the turn of others.
    """

    until: float
    sockets: Mapping[int, int] = NO_SOCKETS
    """``READ`` and ``WRITE`` by file descriptor."""
    answer: LookupAnswer | None = None


Ready: TypeAlias = Collection[int]
"""The file descriptors that ended a wait."""

Steps: TypeAlias = Generator[Wait, Ready, T]
