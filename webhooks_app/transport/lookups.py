"""Requests whose host is being resolved, for a loop that may not wait for any single one."""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

from . import failures
from .base import Request, TransportError
from .endpoint import Endpoint
from .resolver import LOOKUP_SECONDS, NameResolver


@dataclass(eq=False, kw_only=True, slots=True)
class Lookup:
    """A request that waits for the addresses of its host."""

    request: Request
    endpoint: Endpoint
    started_at: float
    over: bool = False

    @property
    def seconds(self) -> float:
        return min(LOOKUP_SECONDS, self.request.timeout_seconds)


class PendingLookups:
    """Hands out each lookup once: with its answer, or with the error that it came to."""

    def __init__(self, resolver: NameResolver, wake: Callable[[], None]) -> None:
        self._resolver = resolver
        self._wake = wake
        self._answered: deque[tuple[Lookup, Future[tuple[str, ...]]]] = deque()
        self._deadlines: list[tuple[float, int, Lookup]] = []
        self._numbers = itertools.count()

    @property
    def next_deadline(self) -> float | None:
        return self._deadlines[0][0] if self._deadlines else None

    def begin(self, lookup: Lookup) -> None:
        """Ask for the addresses; ``wake`` is called from another thread when they are there."""
        deadline = lookup.started_at + lookup.seconds
        heapq.heappush(self._deadlines, (deadline, next(self._numbers), lookup))
        answer = self._resolver.lookup(lookup.endpoint.host, lookup.endpoint.port)
        answer.add_done_callback(partial(self._on_answer, lookup))

    def over(self, now: float) -> Iterator[tuple[Lookup, Sequence[str] | TransportError]]:
        """Yield the lookups that were answered, or that took too long."""
        while self._answered:
            lookup, answer = self._answered.popleft()
            if not lookup.over:
                lookup.over = True
                yield lookup, _result_of(lookup, answer)
        while self._deadlines and (self._deadlines[0][2].over or self._deadlines[0][0] <= now):
            lookup = heapq.heappop(self._deadlines)[2]
            if not lookup.over:
                lookup.over = True
                yield lookup, failures.name_timed_out(lookup.endpoint.host, lookup.seconds)

    def _on_answer(self, lookup: Lookup, answer: Future[tuple[str, ...]]) -> None:
        self._answered.append((lookup, answer))
        self._wake()


def _result_of(lookup: Lookup, answer: Future[tuple[str, ...]]) -> Sequence[str] | TransportError:
    if answer.exception() is None:
        return answer.result()
    return failures.name_unknown(lookup.endpoint.host)
