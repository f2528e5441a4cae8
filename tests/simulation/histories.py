"""Many histories: by new seeds, in several processes, until a time or a number is reached."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .plan import Plan, plan_of
from .referee import BrokenError
from .starting import set_up
from .world import World


class Outcome(NamedTuple):
    """What a history showed: the broken invariant and its description, or two empty texts."""

    seed: int
    steps: int
    requests: int
    digest: str
    invariant: str = ""
    text: str = ""


class Sum(NamedTuple):
    """What many histories showed."""

    histories: int = 0
    long_ones: int = 0
    """Histories of at least 200 steps."""
    steps: int = 0
    requests: int = 0
    cpu_seconds: float = 0.0
    broken: tuple[Outcome, ...] = ()

    def plus(self, other: Sum) -> Sum:
        return Sum(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    def __str__(self) -> str:
        rate = self.histories / self.cpu_seconds if self.cpu_seconds else 0.0
        return (
            f"{self.histories:,} histories ({self.long_ones:,} of at least 200 steps), {self.steps:,} steps, "
            f"{self.requests:,} requests, {self.cpu_seconds:.0f} s of CPU time ({rate:.0f} histories a second): "
            f"{len(self.broken)} broken"
        )


MIN_STEPS = 200


def outcome_of(plan: Plan) -> Outcome:
    """Run one history."""
    world = World(plan)
    broken = "", ""
    try:
        world.run()
    except BrokenError as error:
        broken = error.invariant, str(error)
    except Exception as error:  # noqa: BLE001 - an error of the code under test is a result
        broken = type(error).__name__, repr(error)
    return Outcome(plan.seed, world.loop.steps, world.referee.requests, world.digest.hexdigest(), *broken)


def story_of(plan: Plan) -> list[str]:
    """Return what happens in a history, line by line."""
    world = World(plan, tells=True)
    try:
        world.run()
    except Exception as error:  # noqa: BLE001 - it is the end of the story
        world.story.append(f"{world.loop.now:.6f} {error}")
    return world.story


def run(seeds: Sequence[int], until: float = float("inf")) -> Sum:
    """Run the histories of these seeds in this process, until the monotonic time ``until``."""
    began_at = time.process_time()
    found = Sum()
    for seed in seeds:
        if time.monotonic() >= until:
            break
        outcome = outcome_of(plan_of(seed))
        broken = (outcome,) if outcome.invariant else ()
        found = found.plus(Sum(1, int(outcome.steps >= MIN_STEPS), outcome.steps, outcome.requests, 0.0, broken))
    return found._replace(cpu_seconds=time.process_time() - began_at)


def run_until_broken(seeds: Sequence[int]) -> Sum:
    """Run the histories of these seeds in this process, until one is broken."""
    total = Sum()
    for seed in seeds:
        total = total.plus(run([seed]))
        if total.broken:
            break
    return total


SEEDS_AT_A_TIME = 50


def run_in_processes(
    first_seed: int, *, seconds: float = float("inf"), histories: int | None = None, processes: int | None = None
) -> Iterator[Sum]:
    """Yield the sum so far, again and again."""
    until = time.monotonic() + seconds
    total = Sum()
    with multiprocessing.get_context("spawn").Pool(processes or os.cpu_count() or 1, set_up) as pool:
        batches = (
            (range(seed, seed + SEEDS_AT_A_TIME), until)
            for seed in range(first_seed, first_seed + (histories or 10**9), SEEDS_AT_A_TIME)
            if time.monotonic() < until
        )
        pending = []
        for batch in batches:
            pending.append(pool.apply_async(run, batch))
            if len(pending) >= 3 * (processes or os.cpu_count() or 1):
                total = total.plus(pending.pop(0).get())
                yield total
            if time.monotonic() >= until:
                break
        for each in pending:
            total = total.plus(each.get())
            yield total
