"""Name resolution in threads, because a hostile name server can block getaddrinfo for a long time."""

from __future__ import annotations

import enum
import errno
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

from . import errors
from .base import TransportError
from .system_names import Resolve, resolve_by_system

LOOKUP_SECONDS = 5.0
"""Maximum duration of a lookup."""

FAST_LOOKUP_SECONDS = 1.0
IDLE_THREAD_SECONDS = 10.0
"""Time without work after which a thread ends."""

MAX_NAMES = 10_000

ANSWERS_TO_FORGIVE = 5
"""Consecutive fast answers after which a name with a hang counts as fast again."""


class Pace(enum.Enum):
    """The speed of a name's lookups."""

    FAST = "fast"
    UNKNOWN = "unknown"
    SLOW = "slow"


THREADS = {Pace.FAST: 48, Pace.UNKNOWN: 96, Pace.SLOW: 16}
"""Maximum number of concurrent lookups by the pace of the names."""

MAX_LOOKUPS = sum(THREADS.values())


@dataclass(slots=True)
class _History:
    is_fast: bool = False
    to_forgive: int = 0
    """Fast answers still required after the last hang."""


class NamePaces:
    """The speed of the last ``MAX_NAMES`` resolved names."""

    def __init__(self) -> None:
        self._histories: dict[str, _History] = {}

    def of(self, host: str) -> Pace:
        history = self._histories.get(host)
        if history is None:
            return Pace.UNKNOWN
        if history.to_forgive:
            return Pace.SLOW
        return Pace.FAST if history.is_fast else Pace.UNKNOWN

    def note(self, host: str, seconds: float, *, is_hang: bool) -> None:
        """Record the duration of a lookup. A single fast answer does not outweigh a hang."""
        history = self._histories.pop(host, None) or _History()
        if len(self._histories) >= MAX_NAMES:
            del self._histories[next(iter(self._histories))]
        self._histories[host] = history
        history.is_fast = seconds < FAST_LOOKUP_SECONDS
        if is_hang:
            history.to_forgive = ANSWERS_TO_FORGIVE
        elif history.is_fast and history.to_forgive:
            history.to_forgive -= 1


class LookupAnswer(Future[tuple[str, ...]]):
    """The future addresses of a name."""

    def __init__(self, host: str) -> None:
        super().__init__()
        self.host = host
        self.began_at: float | None = None

    def deadline(self, asked_at: float, until: float) -> float:
        """Return the current deadline of a lookup for a request that started it at ``asked_at`` and ends at ``until``.

        The time in the queue for a thread does not count, because the name did not cause it.
        """
        if self.began_at is None:
            return until
        return min(max(asked_at, self.began_at) + LOOKUP_SECONDS, until)

    def timed_out(self, timeout_seconds: float) -> TransportError:
        """Return the error of a request whose lookup reached its deadline."""
        if self.began_at is None:
            return errors.name_not_looked_up(self.host)
        return errors.name_timed_out(self.host, min(LOOKUP_SECONDS, timeout_seconds))


class _Lookup:
    """A queued or running lookup, shared by all requests for its host."""

    __slots__ = ("answer", "domain", "host", "owners", "pace", "payer", "port", "wanted_until")

    def __init__(self, host: str, port: int, pace: Pace) -> None:
        self.host = host
        self.port = port
        self.pace = pace
        self.domain = _domain_of(host)
        self.answer = LookupAnswer(host)
        self.owners: set[str] = set()
        self.payer = ""
        """The owner charged for the thread."""
        self.wanted_until = 0.0


class _Group:
    """The running and queued lookups of names with one pace."""

    def __init__(self, name: str, limit: int) -> None:
        self.limit = limit
        self.threads = DaemonThreads(name, limit)
        self.waiting: dict[str, _Lookup] = {}
        self._running = 0
        self._by_owner: Counter[str] = Counter()
        self._by_domain: Counter[str] = Counter()

    def begin(self, lookup: _Lookup) -> bool:
        """Count the lookup as running and return True if enough threads remain for others.

        An owner may use as many threads as are free, a domain half as many. A single owner thus gets half of all
        threads, the next one half of the rest, and one thread always remains (a dynamic threshold).
        """
        free = self.limit - self._running
        owner = next((owner for owner in lookup.owners if self._by_owner[owner] < free), None)
        if owner is None or self._by_domain[lookup.domain] >= max(1, free / 2):
            return False
        lookup.payer = owner
        self._count(lookup, 1)
        return True

    def end(self, lookup: _Lookup) -> None:
        self._count(lookup, -1)

    def next(self) -> list[_Lookup]:
        """Return the queued lookups that can start now, already counted."""
        begun = [lookup for lookup in self.waiting.values() if self._running < self.limit and self.begin(lookup)]
        for lookup in begun:
            del self.waiting[lookup.host]
        return begun

    def _count(self, lookup: _Lookup, change: int) -> None:
        self._running += change
        for counter, key in ((self._by_owner, lookup.payer), (self._by_domain, lookup.domain)):
            counter[key] += change
            if not counter[key]:
                del counter[key]


class NameResolver:
    """Resolve names in a limited number of threads. Concurrent lookups of one name share one answer.

    Fast names, unknown names and names with a recent hang each have their own threads. Within each of these groups
    no owner and no domain can use all threads. Therefore slow name servers delay only their own names.
    """

    def __init__(self, resolve: Resolve = resolve_by_system, *, most: int = MAX_LOOKUPS) -> None:
        """With ``most``, fewer lookups run at the same time."""
        self._resolve = resolve
        self._groups = {
            pace: _Group(f"webhooks-resolver-{pace.value}", max(1, limit * most // MAX_LOOKUPS))
            for pace, limit in THREADS.items()
        }
        self._paces = NamePaces()
        self._lock = threading.Lock()
        self._pending: dict[str, _Lookup] = {}

    def lookup(self, host: str, port: int, owner: str = "", *, until: float | None = None) -> LookupAnswer:
        """Return the future addresses of the host for a request of ``owner`` that ends at ``until``."""
        begun: list[_Lookup] = []
        with self._lock:
            lookup = self._pending.get(host)
            if lookup is None:
                lookup = self._pending[host] = _Lookup(host, port, self._paces.of(host))
                self._groups[lookup.pace].waiting[host] = lookup
            lookup.owners.add(owner)
            lookup.wanted_until = max(lookup.wanted_until, until or time.monotonic() + LOOKUP_SECONDS)
            group = self._groups[lookup.pace]
            if host in group.waiting and group.begin(lookup):
                del group.waiting[host]
                begun.append(lookup)
        self._submit(begun)
        return lookup.answer

    def close(self) -> None:
        """Start no more lookups. A running lookup ends at the limit of the operating system."""
        for group in self._groups.values():
            group.threads.close()

    def _submit(self, begun: list[_Lookup]) -> None:
        for lookup in begun:
            try:
                self._groups[lookup.pace].threads.submit(partial(self._run, lookup))
            except OSError as error:
                self._end(lookup)
                lookup.answer.set_exception(error)

    def _run(self, lookup: _Lookup) -> None:
        addresses: tuple[str, ...] = ()
        problem: Exception | None = None
        seconds: float | None = None
        with self._lock:
            began_at = time.monotonic()
            if began_at < lookup.wanted_until:
                lookup.answer.began_at = began_at
            else:
                problem = TimeoutError()  # every request for it has ended, and none can join
                self._pending.pop(lookup.host)
        if problem is None:
            try:
                addresses = tuple(self._resolve(lookup.host, lookup.port))
            except Exception as error:  # noqa: BLE001 - passed on to the requests. The thread must survive
                problem = error
            seconds = time.monotonic() - began_at
        self._end(lookup, seconds)
        if problem is None:
            lookup.answer.set_result(addresses)
        else:
            lookup.answer.set_exception(problem)

    def _end(self, lookup: _Lookup, seconds: float | None = None) -> None:
        group = self._groups[lookup.pace]
        with self._lock:
            if self._pending.get(lookup.host) is lookup:
                del self._pending[lookup.host]
            if seconds is not None:
                self._paces.note(lookup.host, seconds, is_hang=seconds >= LOOKUP_SECONDS)
            group.end(lookup)
            begun = group.next()
        self._submit(begun)


def _domain_of(host: str) -> str:
    """Return the last two labels, an approximation of the registered domain without a public suffix list."""
    return ".".join(host.rstrip(".").split(".")[-2:])


class DaemonThreads:
    """Run functions in at most ``limit`` daemon threads, started on demand and ended when idle. Queue the rest.

    A hanging function blocks neither the caller nor the end of the process.
    """

    def __init__(self, name: str, limit: int) -> None:
        self._name = name
        self._limit = limit
        self._changed = threading.Condition()
        self._waiting: deque[Callable[[], None]] = deque()
        self._running = 0
        self._idle = 0
        self._closed = False

    def submit(self, work: Callable[[], None]) -> None:
        """Run ``work`` in a thread of the pool. It must not raise.

        Raise OSError, and discard ``work``, if the pool has no thread and cannot start one.
        """
        with self._changed:
            self._waiting.append(work)
            if self._idle >= len(self._waiting):
                self._changed.notify()
            elif self._running < self._limit:
                self._begin_thread()

    def close(self) -> None:
        """Discard queued functions, and end each thread after its current one."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()

    def _begin_thread(self) -> None:
        self._running += 1
        try:
            threading.Thread(target=self._run, name=self._name, daemon=True).start()
        except RuntimeError as error:
            self._running -= 1
            if not self._running:  # otherwise a running thread takes the work
                self._waiting.pop()
                raise OSError(errno.ENOMEM, str(error)) from error

    def _run(self) -> None:
        while (work := self._next()) is not None:
            work()
            del work  # so that an idle thread references no request

    def _next(self) -> Callable[[], None] | None:
        with self._changed:
            self._idle += 1
            self._changed.wait_for(lambda: self._waiting or self._closed, IDLE_THREAD_SECONDS)
            self._idle -= 1
            if self._waiting:
                return self._waiting.popleft()
            self._running -= 1
            return None
