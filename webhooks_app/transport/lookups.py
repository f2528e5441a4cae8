"""Pending name lookups of the requests in an event loop."""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from . import errors
from .base import Request, TransportError
from .endpoint import Endpoint
from .exhaustion import error_of
from .resolver import LOOKUP_SECONDS, LookupAnswer, NameResolver


@dataclass(eq=False, kw_only=True, slots=True)
class Lookup:
    """A request during the lookup of its host."""

    request: Request
    endpoint: Endpoint
    started_at: float
    over: bool = False

    @property
    def ends_at(self) -> float:
        return self.started_at + self.request.timeout_seconds


class PendingLookups:
    """Start lookups, and return each of them once, with its addresses or its error."""

    def __init__(self, resolver: NameResolver, wake: Callable[[], None]) -> None:
        self._resolver = resolver
        self._wake = wake
        self._answered: deque[tuple[Lookup, LookupAnswer]] = deque()
        self._deadlines: list[tuple[float, int, Lookup, LookupAnswer]] = []
        self._numbers = itertools.count()

    @property
    def next_deadline(self) -> float | None:
        return self._deadlines[0][0] if self._deadlines else None

    def begin(self, lookup: Lookup) -> None:
        """Start the lookup. Another thread calls ``wake`` at its end."""
        endpoint = lookup.endpoint
        answer = self._resolver.lookup(endpoint.host, endpoint.port, lookup.request.owner, until=lookup.ends_at)
        self._await(lookup, answer, min(lookup.started_at + LOOKUP_SECONDS, lookup.ends_at))
        answer.add_done_callback(partial(self._on_answer, lookup, answer))

    def over(self, now: float) -> Iterator[tuple[Lookup, Sequence[str] | TransportError]]:
        """Yield the lookups that have an answer or exceeded their time."""
        while self._answered:
            lookup, answer = self._answered.popleft()
            if not lookup.over:
                lookup.over = True
                yield lookup, _result_of(lookup, answer)
        while self._deadlines and (self._deadlines[0][2].over or self._deadlines[0][0] <= now):
            _, _, lookup, answer = heapq.heappop(self._deadlines)
            if lookup.over:
                continue
            deadline = answer.deadline(lookup.started_at, lookup.ends_at)
            if deadline <= now:
                lookup.over = True
                yield lookup, answer.timed_out(lookup.request.timeout_seconds)
            else:  # the lookup started late, for lack of a thread
                self._await(lookup, answer, min(deadline, now + LOOKUP_SECONDS))

    def _await(self, lookup: Lookup, answer: LookupAnswer, until: float) -> None:
        heapq.heappush(self._deadlines, (until, next(self._numbers), lookup, answer))

    def _on_answer(self, lookup: Lookup, answer: LookupAnswer, _: object) -> None:
        self._answered.append((lookup, answer))
        self._wake()


def _result_of(lookup: Lookup, answer: LookupAnswer) -> Sequence[str] | TransportError:
    error = answer.exception()
    return answer.result() if error is None else error_of(error, errors.name_unknown(lookup.endpoint.host))
