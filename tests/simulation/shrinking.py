"""Shrinking: the smallest plan found that breaks the same invariant."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from .histories import outcome_of
from .plan import Plan

SECONDS = 60.0


def shrunk(plan: Plan, invariant: str, *, seconds: float = SECONDS) -> Plan:
    """Leave out actions, faults, workers and choices as long as the same invariant is broken."""
    until = time.monotonic() + seconds
    is_shorter = True
    while is_shorter:
        is_shorter = False
        for candidate in _smaller(plan):
            if time.monotonic() > until:
                return plan
            if outcome_of(candidate).invariant == invariant:
                plan, is_shorter = candidate, True
                break
    return plan


def _smaller(plan: Plan) -> Iterator[Plan]:
    """Yield plans without some part, the largest parts first."""
    yield from _without_parts(plan.actions, lambda actions: replace(plan, actions=actions))
    faults = sorted(plan.statement_faults.items())
    yield from _without_parts(faults, lambda rest: replace(plan, statement_faults=dict(rest)))
    kind_faults = sorted(plan.kind_faults.items())
    yield from _without_parts(kind_faults, lambda rest: replace(plan, kind_faults=dict(rest)))
    if plan.suspends or plan.postpones:
        yield replace(plan, suspends=False, postpones=False)
    if plan.workers > 1:
        yield replace(plan, workers=plan.workers - 1)
    for number, webhook in enumerate(plan.webhooks):
        plain = replace(
            webhook, behaviour="ok", order="none", max_in_flight=None, rate_limit=None, policy="", accepted="200"
        )
        for name in ("behaviour", "order", "max_in_flight", "rate_limit", "policy", "accepted"):
            if getattr(webhook, name) != getattr(plain, name):
                simpler = replace(webhook, **{name: getattr(plain, name)})
                yield replace(plan, webhooks=[*plan.webhooks[:number], simpler, *plan.webhooks[number + 1 :]])


def _without_parts(items: list[Any], plan_with: Callable[[list[Any]], Plan]) -> Iterator[Plan]:
    size = len(items) // 2
    while size:
        for start in range(0, len(items), size):
            yield plan_with(items[:start] + items[start + size :])
        size //= 2
    if len(items) == 1:
        yield plan_with([])
