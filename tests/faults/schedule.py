"""Random faults, repeatable by a seed. A new fault is one more function in this module."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from math import ceil
from random import Random

import psycopg
import pymysql
from django.db import connection

from tests.support.retries import Faults
from webhooks_app.models import Webhook
from webhooks_app.models.limits import most_in_flight
from webhooks_app.operations.actors import PROJECT
from webhooks_app.operations.registration import update_webhook
from webhooks_app.operations.rotation import rotate_secret

from .choices import ALL_CHOICES, has_all
from .choices import TEMPERS as CHOOSING
from .lab import SETTINGS, Lab, path_of
from .servers import FolderBroker, MariadbDatabase, PostgresqlDatabase, Restartable

DatabaseServer = PostgresqlDatabase | MariadbDatabase

Injection = Callable[[Lab, Random], None]

TEMPERS = (
    "ok",
    "slow-0.5",
    "fails-1",
    "fails-2",
    "never",
    "hangs",
    "resets-2",
    "truncated",
    "halfaheader",
    "nocontent",
    "moody",
)


EVENTS_PER_SECOND = 2


def add_webhooks(lab: Lab, *, with_choices: bool) -> None:
    """Create a webhook for each temper, and, on request, webhooks that have made all choices."""
    for temper in TEMPERS:
        lab.webhook(temper, max_in_flight=_default_limit(temper))
    for temper in CHOOSING if with_choices else ():
        lab.webhook(temper, **ALL_CHOICES)


def least_in_flight(temper: str) -> int:
    """Return the number of requests at once with which a receiver can keep up with the events, faults included.

    A receiver that cannot would have deliveries in progress long after the last fault.
    """
    name, _, argument = temper.partition("-")
    attempts = len(Faults.delays_seconds) + 1
    requests_with_notices = 2 * attempts - 1
    seconds = {"hangs": requests_with_notices * SETTINGS["WEBHOOKS_TIMEOUT_SECONDS"], "slow": float(argument or 1)}
    return max(1, ceil(SPARE * EVENTS_PER_SECOND * seconds.get(name, 0)))


def _default_limit(temper: str) -> int | None:
    """Return None, the default of all webhooks, if it suffices."""
    least = least_in_flight(temper)
    return least if least > most_in_flight() else None


SPARE = 2
"""Workers and servers may be away for half of the time."""


@dataclass(frozen=True, slots=True)
class Fault:
    inject: Injection
    applies_to: Callable[[Lab], bool]

    @property
    def name(self) -> str:
        return self.inject.__name__.replace("_", " ")


FAULTS: list[Fault] = []


def fault(applies_to: Callable[[Lab], bool] = lambda lab: True) -> Callable[[Injection], Injection]:
    """Register a function that injects a fault and returns at its end."""

    def register(inject: Injection) -> Injection:
        FAULTS.append(Fault(inject, applies_to))
        return inject

    return register


def has_server_as_database(lab: Lab) -> bool:
    return isinstance(lab.database, DatabaseServer)


def has_server_as_broker(lab: Lab) -> bool:
    return not isinstance(lab.broker, FolderBroker)


def inject_for(seconds: float, lab: Lab, dice: Random) -> Iterator[str]:
    """Inject one fault after another. Yield the name of each at its end. All workers run at the end."""
    faults = [fault for fault in FAULTS if fault.applies_to(lab)]
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        chosen = dice.choice(faults)
        chosen.inject(lab, dice)
        yield chosen.name
        time.sleep(dice.uniform(0, 2))


@fault()
def worker_killed(lab: Lab, dice: Random) -> None:
    lab.kill_worker()
    lab.start_worker()


@fault()
def worker_process_killed(lab: Lab, dice: Random) -> None:
    """Kill a process of the pool, as the kernel does when memory is exhausted. Celery's main process survives."""
    parent = str(dice.choice(lab.workers).popen.pid)
    for child in subprocess.run(["pgrep", "-P", parent], capture_output=True, check=False).stdout.split():
        with suppress(ProcessLookupError):
            os.kill(int(child), signal.SIGKILL)
    lab.kills += 1


@fault()
def worker_replaced(lab: Lab, dice: Random) -> None:
    lab.workers.pop(0).request_stop()
    lab.start_worker()


@fault()
def worker_frozen(lab: Lab, dice: Random) -> None:
    """Freeze a worker, sometimes beyond its lease. It counts as a kill, because others may consider its claims lost."""
    worker = dice.choice(lab.workers)
    lab.kills += 1
    worker.freeze()
    time.sleep(dice.choice([1, lab.settings["WEBHOOKS_LEASE_SECONDS"] + 2]))
    worker.thaw()


@fault()
def another_beat(lab: Lab, dice: Random) -> None:
    lab.start_beat()
    lab.beats.pop(0).kill()


@fault()
def receiver_restarted(lab: Lab, dice: Random) -> None:
    lab.stop_receiver()
    time.sleep(dice.uniform(0, 2))
    lab.start_receiver()


@fault()
def broker_emptied(lab: Lab, dice: Random) -> None:
    lab.broker.empty()


@fault(has_server_as_broker)
def broker_restarted(lab: Lab, dice: Random) -> None:
    assert isinstance(lab.broker, Restartable)
    with lab.broker.away():
        time.sleep(dice.uniform(0, 2))


@fault(has_server_as_broker)
def broker_frozen(lab: Lab, dice: Random) -> None:
    assert isinstance(lab.broker, Restartable)
    with lab.broker.frozen():
        time.sleep(dice.uniform(0, 3))


@fault(has_server_as_database)
def database_crashed(lab: Lab, dice: Random) -> None:
    assert isinstance(lab.database, DatabaseServer)
    lab.database.crash()


@fault(has_server_as_database)
def database_away(lab: Lab, dice: Random) -> None:
    assert isinstance(lab.database, DatabaseServer)
    with lab.database.away():
        time.sleep(dice.uniform(0, 2))


@fault(has_server_as_database)
def database_frozen(lab: Lab, dice: Random) -> None:
    assert isinstance(lab.database, DatabaseServer)
    with lab.database.frozen():
        time.sleep(dice.uniform(0, 3))


@fault()
def webhook_changed(lab: Lab, dice: Random) -> None:
    """Change the limits and the secret of a webhook. Requests in flight continue."""
    connection.close()  # The database may have been unavailable since the last query.
    webhook = Webhook.objects.get(pk=dice.choice(lab.webhooks).pk)
    temper = path_of(webhook).split("/")[1]
    least = least_in_flight(temper)
    limits = [_default_limit(temper), least, max(8, least)]
    changes = {"max_in_flight": dice.choice(limits), "rate_limit": dice.choice([None, 20.0])}
    update_webhook(webhook, actor=PROJECT, **changes)
    rotate_secret(webhook, actor=PROJECT)
    if has_all(webhook):
        rotate_secret(webhook, scheme="standard-ed25519", actor=PROJECT)
    lab.remember_keys(webhook)


@fault(has_server_as_database)
def connections_terminated(lab: Lab, dice: Random) -> None:
    assert isinstance(lab.database, DatabaseServer)
    for _ in range(dice.randint(1, 6)):
        with suppress(psycopg.OperationalError, pymysql.OperationalError):
            lab.database.terminate_connections()
        time.sleep(0.5)
