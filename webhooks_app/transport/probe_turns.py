"""The rate limit of probes (handshakes and test events) for each address, shared fairly between owners.

An owner chooses the URLs of these requests freely. Many owners share the addresses of a content delivery network.
Therefore a request beyond the rate is postponed, never refused, and the owners take turns.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from .base import Request
from .refused_addresses import Address

BURST_SECONDS = 1.0
"""How long an address without probes accumulates its rate."""

GRACE_SECONDS = 1.0
"""The time within which a postponed request must return. Later, its turn passes to the next."""


class ProbeTurns:
    """The turns at all addresses, for one transport. Thread-safe."""

    def __init__(self, per_second: float | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval = 1 / per_second if per_second else 0.0
        self._clock = clock
        self._lock = threading.Lock()
        self._lines: dict[Address, _Line] = {}

    def seconds_to_wait(self, request: Request, addresses: Sequence[Address]) -> float:
        """Return the time to wait before sending a probe to one of these addresses. Count it if the time is 0.0.

        All addresses count, because any of them may be connected first.
        """
        if not self._interval:
            return 0.0
        with self._lock:
            now = self._clock()
            lines = self._lines_of(addresses, now)
            if all(line.is_turn_of(request.owner, now) for line in lines):
                for line in lines:
                    line.take(request.owner, request.probe)
                return 0.0
            # The same time in each line: a request expected earlier at one of its addresses would block others there.
            at = max(line.next_turn_of(request.owner, request.probe, now) for line in lines)
            for line in lines:
                line.expect(request.owner, request.probe, at)
            return at - now

    def _lines_of(self, addresses: Sequence[Address], now: float) -> list[_Line]:
        if any(address not in self._lines for address in addresses):
            self._lines = {known: line for known, line in self._lines.items() if not line.is_over(now)}
        lines = [self._lines.setdefault(address, _Line(self._interval)) for address in dict.fromkeys(addresses)]
        for line in lines:
            line.proceed(now)
        return lines


class _Line:
    """The owners with postponed requests for one address, in the order of their turns."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._next_at = 0.0
        self._waiting: dict[str, dict[str, float]] = {}
        """The expected time of each postponed request, by owner."""

    def is_over(self, now: float) -> bool:
        self.proceed(now)
        return not self._waiting and self._next_at <= now - BURST_SECONDS

    def proceed(self, now: float) -> None:
        """Drop the requests that have not returned in time, and limit the accumulated rate."""
        self._next_at = max(self._next_at, now - BURST_SECONDS)
        waiting = {
            owner: {probe: at for probe, at in probes.items() if at > now - GRACE_SECONDS}
            for owner, probes in self._waiting.items()
        }
        self._waiting = {owner: probes for owner, probes in waiting.items() if probes}

    def is_turn_of(self, owner: str, now: float) -> bool:
        """Return True if the rate permits a request, and no earlier owner's request is expected by now."""
        if self._next_at > now:
            return False
        before = _before(self._waiting, owner)
        return not any(at <= now for other in before for at in self._waiting[other].values())

    def take(self, owner: str, probe: str) -> None:
        """Count a request, and move its owner to the end of the line."""
        self._next_at += self._interval
        probes = self._waiting.pop(owner, {})
        probes.pop(probe, None)
        if probes:
            self._waiting[owner] = probes

    def next_turn_of(self, owner: str, probe: str, now: float) -> float:
        """Return the time for the next try of the request, if each owner sends one request per round."""
        rounds = len(self._waiting.get(owner, {}).keys() - {probe})
        before = set(_before(self._waiting, owner))
        others = sum(
            min(len(probes), rounds + (other in before)) for other, probes in self._waiting.items() if other != owner
        )
        return max(self._next_at, now) + (rounds + others) * self._interval

    def expect(self, owner: str, probe: str, at: float) -> None:
        """Keep the owner's place in the line for a request that returns at this time."""
        self._waiting.setdefault(owner, {})[probe] = at


def _before(waiting: dict[str, dict[str, float]], owner: str) -> list[str]:
    """Return the owners before this one, or all if it has no postponed requests."""
    owners = list(waiting)
    return owners[: owners.index(owner)] if owner in waiting else owners
