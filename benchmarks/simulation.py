"""A simulation of one worker beside receivers that hang: real slots, but a simulated queue, clock and receivers."""

from __future__ import annotations

import heapq
import itertools
import random
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from webhooks_app.delivery.claim import MAX_LANES, Claim
from webhooks_app.delivery.slots import Slots, usual_cap
from webhooks_app.models import Delivery, DeliveryAttempt

from .scenario import Figures

TURN_SECONDS = 0.01
"""The time of a claim and a recording. Nothing else is claimed meanwhile."""

BATCH_SIZE = 500
CAP = 50
TIMEOUT_SECONDS = 30.0
FAST_SECONDS, SLOW_SECONDS = 0.05, 1.2
"""The times of the healthy receivers."""

HANG_AT = 5.0
"""When turning receivers begin to hang, and all others get their first event."""

AHEAD_SECONDS = 0.2
"""How much earlier the owner of the measured siblings gets its burst, so that it holds more than the others."""

WEBHOOKS = {1: 60, 10: 30, 100: 5}
"""The number of hanging webhooks of each owner, by the number of such owners."""


@dataclass(frozen=True, kw_only=True)
class Neighbours:
    """The webhooks that hang."""

    kind: str
    """``new``; ``proven``: fast until the first event here; or ``turning``: fast until ``HANG_AT``."""
    owners: int
    at_once: int = 0
    """Events to each at ``HANG_AT``, in addition to one per second."""

    def __str__(self) -> str:
        owners = "1 owner" if self.owners == 1 else f"{self.owners} owners"
        burst = f", {self.at_once} events at once" if self.at_once else ""
        return f"{owners}, {WEBHOOKS[self.owners]} {self.kind} each{burst}"


@dataclass(slots=True)
class Endpoint:
    """A webhook of the simulation."""

    owner: str
    group: str
    """The name under which its delays are measured."""
    seconds: Callable[[float], float]
    """The duration of a request that starts at a time."""
    is_fast: bool | None
    """Its stored pace."""
    events: Sequence[tuple[float, int]]
    """Times, and numbers of events then."""
    due: deque[float] = field(default_factory=deque)


class Attempt(NamedTuple):
    duration_ms: int
    result: str


def simulate(neighbours: Neighbours, window: int, seconds: float) -> Figures:
    """Return the delays of healthy webhooks: of an owner without others, and of siblings of hanging ones."""
    worker = SimulatedWorker(window, list(_endpoints(neighbours, HANG_AT + seconds)))
    delays = worker.run(until=HANG_AT + seconds)
    p95 = {group: sorted(found)[int(0.95 * (len(found) - 1))] for group, found in delays.items()}
    milliseconds = {f"{group}_p95_ms": 1000 * p95[group] for group in ("fast", "fast_sibling", "new", "new_sibling")}
    alone = SLOW_SECONDS + TURN_SECONDS
    times = {f"{group}_times_alone": (SLOW_SECONDS + p95[group]) / alone for group in ("slow", "slow_sibling")}
    return {f"window_{window}_{name}": figure for name, figure in {**milliseconds, **times}.items()}


def _endpoints(neighbours: Neighbours, until: float) -> Iterable[Endpoint]:
    chance = random.Random(neighbours.owners)
    begin = 0.0 if neighbours.kind == "turning" else HANG_AT
    pace = None if neighbours.kind == "new" else True
    for number in range(neighbours.owners * WEBHOOKS[neighbours.owners]):
        events = _steady(chance, 1.0, begin, until)
        if neighbours.at_once:
            events.append(
                (HANG_AT - (AHEAD_SECONDS if number < WEBHOOKS[neighbours.owners] else 0), neighbours.at_once)
            )
        owner = f"hanging {number // WEBHOOKS[neighbours.owners]}"
        yield Endpoint(owner, "hanging", _hangs if begin else _turns, pace, events)
    each_second = [(at, 1) for at in range(int(HANG_AT), int(until) - 5)]
    for suffix, fast_owner, slow_owner in (("", "fast", "slow"), ("_sibling", "hanging 0", "hanging 0")):
        yield Endpoint(fast_owner, f"fast{suffix}", _is_fast, True, _steady(chance, 10.0, HANG_AT, until))
        yield Endpoint(slow_owner, f"slow{suffix}", _is_slow, False, each_second)
    for second in range(int(HANG_AT) + 1, int(until) - 2, 2):
        yield Endpoint(f"new {second}", "new", _is_fast, None, [(second + 0.3, 1)])
        yield Endpoint("hanging 0", "new_sibling", _is_fast, None, [(second + 0.6, 1)])


def _steady(chance: random.Random, per_second: float, begin: float, end: float) -> list[tuple[float, int]]:
    """Return events at irregular intervals."""
    steps = itertools.accumulate(iter(lambda: chance.expovariate(per_second), None))
    return [(begin + step, 1) for step in itertools.takewhile(lambda step: begin + step < end, steps)]


def _is_fast(now: float) -> float:
    return FAST_SECONDS


def _is_slow(now: float) -> float:
    return SLOW_SECONDS


def _hangs(now: float) -> float:
    return TIMEOUT_SECONDS


def _turns(now: float) -> float:
    return FAST_SECONDS if now < HANG_AT else TIMEOUT_SECONDS


class SimulatedWorker:
    """The slots of one process, with a loop that claims from webhooks in turn."""

    def __init__(self, window: int, endpoints: Sequence[Endpoint]) -> None:
        self._now = 0.0
        self._endpoints = {f"webhook-{number:05}": endpoint for number, endpoint in enumerate(endpoints)}
        self._slots = Slots(window=window, cap=usual_cap(window, CAP))
        self._due: dict[str, None] = {}
        self._numbers = itertools.count()
        self._delays: defaultdict[str, list[float]] = defaultdict(list)
        self._last = ""
        self._steps: list[tuple[float, int, str, int | Claim]] = []
        for name, endpoint in self._endpoints.items():
            self._slots.learn(name, endpoint.owner, endpoint.is_fast)
            for at, number in endpoint.events:
                self._add(at, name, number)

    def run(self, until: float) -> dict[str, list[float]]:
        """Return the delays of all requests from due to sent, by group; of those never sent, until the end."""
        while self._steps and self._steps[0][0] < until:
            ends_at = max(self._now, self._steps[0][0]) + TURN_SECONDS
            while self._steps and self._steps[0][0] <= ends_at:
                self._now, _, name, change = heapq.heappop(self._steps)
                self._change(name, change)
            self._now = ends_at
            self._claim()
        for endpoint in self._endpoints.values():
            self._delays[endpoint.group] += [until - at for at in endpoint.due if at < until]
        return self._delays

    def _add(self, at: float, name: str, change: int | Claim) -> None:
        heapq.heappush(self._steps, (at, next(self._numbers), name, change))

    def _change(self, name: str, change: int | Claim) -> None:
        """Make events due, or record the result of a claim."""
        if isinstance(change, int):
            self._endpoints[name].due.extend([self._now] * change)
            self._due[name] = None
            return
        seconds = self._now - float(change.event_type)
        result = DeliveryAttempt.Result.SUCCEEDED if seconds < TIMEOUT_SECONDS else DeliveryAttempt.Result.TIMEOUT
        attempt: Any = Attempt(round(1000 * seconds), result.value)
        step: Any = None
        self._slots.note([(change, attempt, step, step)], self._now)  # type: ignore[list-item]
        self._slots.give_back([change])

    def _claim(self) -> None:
        names = sorted(self._due)
        names = [name for name in names if name > self._last][:MAX_LANES] or names[:MAX_LANES]
        self._last = names[-1] if len(names) == MAX_LANES else ""
        names, _ = self._slots.with_room(names, self._now)
        for ask in self._slots.asks(names, BATCH_SIZE, self._now):
            endpoint = self._endpoints[ask.webhook_id]
            number = min(ask.room, ask.cap - ask.own, len(endpoint.due))
            claims = [self._new_claim(ask.webhook_id) for _ in range(number)]
            self._slots.take(claims, self._now)
            for claim in claims:
                self._slots.begin(claim, self._now)
                self._delays[endpoint.group].append(self._now - endpoint.due.popleft())
                self._add(self._now + endpoint.seconds(self._now), ask.webhook_id, claim)
            if not endpoint.due:
                del self._due[ask.webhook_id]

    def _new_claim(self, name: str) -> Claim:
        lane: Any = None
        return Claim(
            delivery_id=f"delivery-{next(self._numbers)}",
            webhook_id=name,
            event_id="event",
            kind=Delivery.Kind.EVENT,
            number=1,
            max_attempts=4,
            lost_since=None,
            expires_at=None,
            retry_policy="",
            is_ordered=False,
            lane=lane,
            event_type=str(self._now),
            body=b"",
        )
