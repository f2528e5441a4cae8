"""A step of a recovery happens once, with several workers, and with workers that are killed in the middle of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, connections

from webhooks_app.maintenance.recovery import Step, advance_recovery
from webhooks_app.models import Delivery, Episode, Replay
from webhooks_app.models.audit import SYSTEM, acting

from .conftest import MINUTE, Outage

pytestmark = pytest.mark.django_db(transaction=True)


class KilledError(BaseException):
    """The end of a worker."""


class KillAt:
    """Ends the worker before its statement with this number."""

    def __init__(self, number: int) -> None:
        self.left = number

    def __call__(self, execute: Callable[..., Any], *args: Any) -> Any:
        self.left -= 1
        if self.left < 0:
            raise KilledError
        return execute(*args)


def fail(outage: Outage) -> None:
    """Let a recovery attempt become due."""
    outage.emit(3)
    outage.work()
    outage.clock.advance(60)


def recover(outage: Outage) -> None:
    """Let a replay become due."""
    outage.emit(3)
    outage.work()
    outage.answer(200)
    outage.emit()
    outage.deliver()
    outage.run_jobs(replays=False)
    Replay.objects.all().delete()
    Episode.objects.update(next_step_at=outage.clock())


def made() -> tuple[int, int]:
    return Delivery.objects.filter(purpose="recovery").count(), Replay.objects.count()


CASES = [
    pytest.param(fail, Step.ATTEMPT, (1, 0), id="attempt"),
    pytest.param(recover, Step.REPLAY, (0, 1), id="replay"),
]


@pytest.mark.parametrize(("prepare", "step", "expected"), CASES)
def test_workers_at_the_same_time_make_a_step_once(outage, prepare, step, expected):
    prepare(outage)
    now, ready, steps = outage.clock(), threading.Barrier(3), []

    def run() -> None:
        try:
            ready.wait()
            with acting(SYSTEM):
                steps.append(advance_recovery("default", outage.webhook.pk, now))
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(steps, key=str) == sorted([step, None, None], key=str)
    assert made() == expected


@pytest.mark.parametrize(("prepare", "step", "expected"), CASES)
def test_a_worker_killed_at_any_statement_loses_and_repeats_nothing(outage, prepare, step, expected):
    prepare(outage)
    before, number = made(), 0

    while True:
        with acting(SYSTEM):
            try:
                with connection.execute_wrapper(KillAt(number)):
                    advance_recovery("default", outage.webhook.pk, outage.clock())
                break
            except KilledError:
                connection.close()
                assert made() == before
        number += 1

    assert number > 10
    assert made() == expected
    assert advance_recovery("default", outage.webhook.pk, outage.clock()) is None
    assert Episode.objects.get().next_step_at == outage.clock() + MINUTE
