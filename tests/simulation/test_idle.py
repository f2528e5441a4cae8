"""A worker that delivers until it is idle leaves nothing that is due, wherever its threads are interrupted."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import OperationalError

from . import adapter
from .loop import Lock
from .plan import Plan, WebhookPlan
from .slot_rules import JudgedSlots
from .world import World

SECONDS = 60.0


class InterruptedLock(Lock):
    """A lock around which other threads may run, as between any two statements of Python."""

    def __init__(self, world: World) -> None:
        super().__init__(world.loop)
        self._pause = lambda: world.loop.sleep(0.02 * world.delays.random() ** 6)

    def __enter__(self) -> None:
        self._pause()
        super().__enter__()

    def __exit__(self, *exception: object) -> None:
        super().__exit__(*exception)
        self._pause()


class WorldUntilIdle(World):
    """One worker, whose engine ends when nothing is due."""

    def deliver(self, engine: Any) -> None:
        engine.run_until_idle(await_retries=False)

    def run(self) -> None:
        names = adapter.names_for(self)
        names["threading"] = SimpleNamespace(**{**vars(names["threading"]), "Lock": partial(InterruptedLock, self)})
        # The rules for slots hold while their lock is held, and not at its interruptions.
        names["Slots"] = partial(JudgedSlots, lambda problem: None, self.note_use)
        self.app.cut_off_until, self.app.struck, self.app.worker, self.app.is_troubled = 0.0, "", None, False
        with adapter.substituted(self.database, names):
            try:
                webhooks = [self._add_webhook(number, plan) for number, plan in enumerate(self.plan.webhooks)]
                self.app.start(lambda: [self._emit(webhook) for webhook in webhooks for _ in range(8)])
                self.loop.run(1.0)
                worker = self.start_worker(1)
                self.app.start(lambda: self._wake_often(worker))
                self.loop.run(SECONDS)
                assert worker.process.has_ended
            finally:
                self._forget()

    def _wake_often(self, worker: Any) -> None:
        while not worker.process.has_ended:
            self.loop.sleep(0.01 * self.delays.random())
            self._wake(worker)

    def _emit(self, webhook: Any) -> None:
        with suppress(OperationalError):
            self.emit(webhook, 0.1011)  # a commit


@pytest.mark.parametrize("seed", range(40))
def test_a_worker_until_idle_leaves_nothing_due(seed):
    limited = [WebhookPlan(0, "quick", max_in_flight=1)]
    database = ("postgresql", "mariadb", "sqlite")[seed % 3]
    world = WorldUntilIdle(Plan(seed, database=database, workers=1, window=160, webhooks=limited), tells=True)

    world.run()

    assert not world.store.entries, "\n".join(world.story)
