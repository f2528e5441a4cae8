"""The plan of a history: everything that a seed decides in advance. A plan can be shrunk: any part can be left out."""

from __future__ import annotations

from collections.abc import Sequence
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
    kind_faults: dict[tuple[str, int], str] = field(default_factory=dict)
    """The same by the kind of statement, and its number among those of its kind."""
    is_listening: bool = True
    suspends: bool = False
    """Whether emitters suspend notifications, as those that commit often do."""
    postpones: bool = False
    """Whether the transport postpones handshakes and tests."""

    @property
    def notifies(self) -> bool:
        return self.database == "postgresql" and self.is_listening

    @property
    def sees_sessions(self) -> bool:
        return self.notifies


EMISSIONS = ("emit",)
USER_ACTIONS = (
    *(
        "start again",
        "pause",
        "resume",
        "disable",
        "enable",
        "delete",
        "change url",
        "limit",
        "rate",
        "order",
        "retry now",
    ),
    *("retry now", "redeliver", "test", "behaviour", "behaviour"),
)
FAULTS = (
    *("kill", "kill", "freeze", "freeze long", "stop", "database away", "database away long", "notifications lost"),
    *("clock jump", "clock rate", "slow database", "cut off"),
)
STATEMENT_FAULTS = ("fails", "fails", "kill before", "kill after", "unacknowledged", "unacknowledged", "slow")


CLAIM_FAULTS = ("freeze", "freeze long", "late", "unacknowledged", "kill after", "fails")
"""Faults at the commit of a claim, before its requests."""


def plan_of(seed: int) -> Plan:
    """Return the plan of a history, which depends on nothing but the seed."""
    random = Random(seed)
    scenario = random.choice((None, None, None, None, *SCENARIOS))
    plan = _plan(seed, random)
    if scenario is not None:
        scenario(plan, random)
    plan.actions.sort()
    return plan


def _plan(seed: int, random: Random) -> Plan:
    """Return a plan of everything that may happen."""
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
        suspends=random.random() < 0.1,
        postpones=random.random() < 0.1,
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
    return plan


# Scenarios: histories of one kind, in which rare situations are frequent.


def _webhooks(plan: Plan, random: Random, number: int, behaviours: Sequence[str], owners: int = 1) -> None:
    """Replace the webhooks by others without limits."""
    plan.webhooks = [WebhookPlan(random.randrange(owners), random.choice(behaviours)) for _ in range(number)]


def _emit(plan: Plan, random: Random, number: int, begin: float = 0.0, end: float | None = None) -> None:
    end = plan.end if end is None else end
    for _ in range(number):
        at = begin + (end - begin) * random.random()
        plan.actions.append(Action(at, "emit", random.randrange(len(plan.webhooks)), 0.9 * random.random()))


def _calm(plan: Plan, random: Random, workers: Sequence[int] = (1, 1, 2)) -> None:
    plan.actions, plan.statement_faults, plan.workers = [], {}, random.choice(workers)


def _full(plan: Plan, random: Random) -> None:
    """Hanging, slow and quick receivers of several owners fill a small window."""
    _calm(plan, random)
    plan.window, plan.end = random.choice((4, 8, 8, 16)), 8.0
    behaviours = ("hangs", "hangs", "slow", "ok", "uneven", "slowly fails")
    _webhooks(plan, random, random.choice((4, 6, 10)), behaviours, owners=random.choice((2, 3)))
    _emit(plan, random, random.choice((20, 40)), end=3.0)
    _emit(plan, random, 10)


def _hanging(plan: Plan, random: Random) -> None:
    """Some receivers hang, with room for probes."""
    _calm(plan, random)
    plan.window, plan.end = random.choice((16, 20, 64)), 12.0
    _webhooks(plan, random, random.choice((1, 2, 3)), ("hangs", "hangs", "slow", "uneven", "ok"), owners=2)
    _emit(plan, random, random.choice((4, 8)), end=1.0)
    _emit(plan, random, 6)
    if random.random() < 0.5:
        plan.actions.append(Action(2.0 + 6.0 * random.random(), "behaviour", random.randrange(9), random.random()))


def _ordered(plan: Plan, random: Random) -> None:
    """Groups with slow and failing receivers, in which each delivery waits for the one before."""
    _calm(plan, random, (1, 2, 3))
    _webhooks(plan, random, random.choice((1, 2)), ("slow", "uneven", "ok", "fails once", "slowly fails"))
    for webhook in plan.webhooks:
        webhook.order, webhook.policy = random.choice(("webhook", "key")), random.choice(POLICIES)
        webhook.max_in_flight = random.choice((None, 1))
    plan.end = 15.0
    _emit(plan, random, random.choice((6, 12)), end=2.0)


def _limited(plan: Plan, random: Random) -> None:
    """Receivers with few requests at a time, and more to do."""
    _calm(plan, random)
    _webhooks(plan, random, random.choice((1, 2, 3)), ("slow", "uneven", "ok", "asks to wait", "no content"), owners=2)
    for webhook in plan.webhooks:
        webhook.max_in_flight, webhook.policy = random.choice((1, 2)), random.choice(POLICIES)
    plan.end = 12.0
    _emit(plan, random, random.choice((6, 12)), end=3.0)
    if random.random() < 0.3:
        plan.webhooks = [WebhookPlan(0, "quick", rate_limit=2.0)]
        _emit(plan, random, 16, end=0.5)


def _verified(plan: Plan, random: Random) -> None:
    """Users change URLs, and disable and enable webhooks, while handshakes are open."""
    plan.actions, plan.end, plan.postpones = [], 25.0, random.random() < 0.3
    plan.timeout, plan.lease = 5.0, 12.0
    behaviours = ("slow", "uneven", "succeeds once", "succeeds once", "slowly fails", "fails once")
    _webhooks(plan, random, random.choice((1, 2)), behaviours)
    for _ in range(random.choice((0, 1, 2))):
        what = random.choice(("freeze long", "freeze long", "cut off", "kill"))
        plan.actions.append(Action(4.0 * random.random(), what, random.randrange(9), random.random()))
    for webhook in plan.webhooks:
        webhook.status = random.choice(("active", "pending"))
    for _ in range(random.choice((3, 6))):
        what = random.choice(("change url", "change url", "change url", "start again", "start again", "enable", "test"))
        plan.actions.append(Action(6.0 * random.random(), what, random.randrange(99), random.random()))
    _emit(plan, random, 6)


def _lost(plan: Plan, random: Random) -> None:
    """Workers freeze, die or lose the database right after a claim, also after one of lost claims."""
    plan.actions, plan.statement_faults, plan.workers, plan.end = [], {}, random.choice((1, 2, 2, 3)), 40.0
    plan.timeout, plan.lease = random.choice(((30.0, 45.0), (5.0, 12.0)))
    _webhooks(plan, random, random.choice((1, 2, 3)), ("ok", "ok", "slow", "hangs", "moody"), owners=2)
    for begin in (0.0, 17.0, 25.0):
        _emit(plan, random, random.choice((2, 6)), begin=begin, end=begin + 4.0)
    for _ in range(random.choice((1, 3))):
        plan.actions.append(Action(20.0 * random.random(), "kill", random.randrange(9), random.random()))
    if random.random() < 0.4:
        plan.actions.append(Action(15.0 * random.random(), "pause", random.randrange(9), random.random()))
    for number in random.sample(range(1, 13), random.choice((1, 3))):
        plan.kind_faults["commit of claim", number] = random.choice(CLAIM_FAULTS)
    for number in (1, 2):
        plan.kind_faults["commit of claim of lost ones", number] = random.choice(CLAIM_FAULTS[2:])


def _unnotified(plan: Plan, random: Random) -> None:
    """Workers start while emitters suspend notifications."""
    _calm(plan, random, (1,))
    plan.database, plan.is_listening, plan.suspends, plan.end = "postgresql", True, True, 12.0
    _webhooks(plan, random, random.choice((1, 2)), ("ok", "quick", "slow"))
    _emit(plan, random, random.choice((1, 2, 4)), end=0.2)
    for begin in (3.0, 7.0):
        plan.actions.append(Action(begin, "stop", random.randrange(9), random.random()))
        _emit(plan, random, random.choice((1, 2, 4)), begin=begin + 0.95, end=begin + 1.15)


def _jumping(plan: Plan, random: Random) -> None:
    """The machine's clock is set while requests are open."""
    _calm(plan, random, (1,))
    plan.end = 15.0
    _webhooks(plan, random, random.choice((1, 2)), ("hangs", "hangs", "slow", "late", "ok"))
    _emit(plan, random, random.choice((2, 6)), end=4.0)
    plan.actions.append(Action(0.5 + 6.0 * random.random(), "clocks jump", 0, random.random()))


SCENARIOS = (_full, _hanging, _ordered, _limited, _verified, _lost, _lost, _unnotified, _jumping)
