"""The plan of a history: everything that a seed decides in advance. A plan can be shrunk: any part can be left out."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from .adapter import POLICIES
from .receivers import BEHAVIOURS

STATEMENTS = 4000
"""Statements among which faults are spread."""


class Action(NamedTuple):
    """Something that somebody does at a time: an emitter, a user, or a fault."""

    at: float
    what: str
    target: int = 0
    value: float = 0.0


@dataclass(slots=True)
class WebhookPlan:
    owner: int
    behaviour: str
    order: str = "none"
    max_in_flight: int | None = None
    rate_limit: float | None = None
    policy: str = ""
    accepted: str = "200"
    status: str = "active"


@dataclass(slots=True)
class Plan:
    seed: int
    database: str = "postgresql"
    workers: int = 2
    window: int = 20
    cap: int = 50
    batch_size: int = 500
    timeout: float = 30.0
    lease: float = 45.0
    end: float = 30.0
    """When faults end, receivers answer, and users undo what holds deliveries."""
    webhooks: list[WebhookPlan] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    statement_faults: dict[int, str] = field(default_factory=dict)
    """Faults by the number of the statement or commit that they strike."""
    is_listening: bool = True

    @property
    def notifies(self) -> bool:
        return self.database == "postgresql" and self.is_listening

    @property
    def sees_sessions(self) -> bool:
        return self.notifies


EMISSIONS = ("emit",)
USER_ACTIONS = (
    *("pause", "resume", "disable", "enable", "delete", "change url", "limit", "rate", "order", "retry now"),
    *("redeliver", "test", "behaviour", "behaviour"),
)
FAULTS = (
    *("kill", "kill", "freeze", "freeze long", "stop", "database away", "database away long", "notifications lost"),
    *("clock jump", "clock rate", "slow database", "cut off"),
)
STATEMENT_FAULTS = ("fails", "fails", "kill before", "kill after", "unacknowledged", "unacknowledged", "slow")


def plan_of(seed: int) -> Plan:
    """Return the plan of a history, which depends on nothing but the seed."""
    random = Random(seed)
    database = random.choices(("postgresql", "mariadb", "sqlite"), (6, 3, 2))[0]
    timeout, lease = random.choice(((30.0, 45.0), (5.0, 12.0), (10.0, 20.0)))
    plan = Plan(
        seed,
        database=database,
        workers=random.choice((1, 1, 2, 2, 3, 4, 5, 6)) if database != "sqlite" else random.choice((1, 2, 3)),
        window=random.choice((4, 8, 16, 20, 64, 160)),
        cap=random.choice((2, 10, 50)),
        batch_size=random.choice((3, 500)),
        timeout=timeout,
        lease=lease,
        end=random.choice((3.0, 8.0, 15.0, 30.0)),
        is_listening=random.random() < 0.85,
    )
    owners = random.choice((1, 1, 2, 3))
    is_calm = random.random() < 0.3
    behaviours = sorted(BEHAVIOURS)
    for _ in range(random.choice((1, 2, 3, 4, 6))):
        plan.webhooks.append(
            WebhookPlan(
                owner=random.randrange(owners),
                behaviour=random.choice(("ok", "ok", "quick", *behaviours)),
                order=random.choice(("none", "none", "webhook", "key")),
                max_in_flight=random.choice((None, None, 1, 2, 5)),
                rate_limit=random.choice((None, None, None, None, 2.0, 10.0)),
                policy=random.choice((POLICIES[0], POLICIES[0], *POLICIES)),
                accepted=random.choice(("200", "200", "2xx")),
                status="pending" if random.random() < 0.1 else "active",
            )
        )
    actions = plan.actions
    for _ in range(random.choice((1, 2, 4))):  # bursts
        begin = random.random() * plan.end * 0.8
        for _ in range(random.choice((1, 3, 8, 20))):
            at = min(plan.end, begin + random.random() * random.choice((0.0, 0.1, 5.0)))
            actions.append(Action(at, "emit", random.randrange(len(plan.webhooks)), random.random()))
    for _ in range(0 if random.random() < 0.4 else random.randrange(1, 6)):
        what = random.choice(USER_ACTIONS)
        actions.append(Action(random.random() * plan.end, what, random.randrange(99), random.random()))
    if not is_calm:
        for _ in range(random.choice((0, 1, 2, 4))):
            what = random.choice(FAULTS)
            actions.append(Action(random.random() * plan.end, what, random.randrange(99), random.random()))
        for _ in range(random.choice((0, 0, 1, 3, 8))):
            number = int(STATEMENTS ** random.random())
            plan.statement_faults[number] = random.choice(STATEMENT_FAULTS)
    actions.sort()
    return plan
