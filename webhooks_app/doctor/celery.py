"""Examination of Celery: its broker and the schedule of beat."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from queue import Empty, SimpleQueue
from typing import Any

from django.apps import apps
from django.conf import settings as django_settings

from ..database.clock import DatabaseClock
from ..maintenance.runner import BEAT
from ..models import MaintenanceJob
from .configuration import BEAT_CHECK
from .database import database_alias
from .findings import Finding, fail, ok, warn

BROKER_SECONDS = 2.0
"""Timeout for connecting to the broker."""

SEEN_WITHIN = timedelta(minutes=1)
"""Maximum age of the last message of beat, which sends one every few seconds."""

SWEEP_TASK, PRUNE_TASK = "webhooks_app.deliver_due", "webhooks_app.prune"


def examine_broker(name: str) -> Iterator[Finding]:
    connection = _celery().connection_for_write()
    shown = connection.as_uri()  # with the password masked
    problem = _problem_of_connecting(connection)
    if problem:
        hint = "Start the broker, or fix CELERY_BROKER_URL. Nothing is lost: deliveries stay in the database meanwhile."
        yield fail(name, f"{shown} does not answer: {problem}.", hint)
    else:
        yield ok(name, f"{shown} answers.")


def _problem_of_connecting(connection: Any) -> str:
    """Return the error of connecting to the broker, or "". A thread enforces the timeout, which some clients ignore."""
    outcome: SimpleQueue[str] = SimpleQueue()

    def ask() -> None:
        try:
            connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0, timeout=BROKER_SECONDS)
            connection.default_channel  # noqa: B018 - some transports connect on first use
        except Exception as error:  # noqa: BLE001 - each client library has its own exceptions
            outcome.put(str(error) or type(error).__name__)
        else:
            outcome.put("")
        finally:
            connection.release()

    threading.Thread(target=ask, name="webhooks_app.doctor", daemon=True).start()
    try:
        return outcome.get(timeout=BROKER_SECONDS * 1.5)
    except Empty:
        return f"no answer within {BROKER_SECONDS * 1.5:g} s"


def examine_beat(name: str) -> Iterator[Finding]:
    if BEAT_CHECK in django_settings.SILENCED_SYSTEM_CHECKS:
        yield ok(name, f"The schedule is not examined: {BEAT_CHECK} is silenced.")
        return
    is_in_database = "django_celery_beat" in str(_celery().conf.beat_scheduler)
    scheduled = _tasks_in_database() if is_in_database else _tasks_in_settings()
    where = "Beat's schedule in the database" if is_in_database else "Beat's schedule in the settings"
    hint = "Merge webhooks_app.beat.BEAT_SCHEDULE into CELERY_BEAT_SCHEDULE" + (
        ", start beat once to copy it to the database, and enable the entry in the admin." if is_in_database else "."
    )
    missing = [task for task in (SWEEP_TASK, PRUNE_TASK) if task not in scheduled]
    if missing:
        yield warn(name, f"{where} has no entry for {' and '.join(missing)}.", hint)
    else:
        yield from _beat_seen(name, f"{where} contains the sweep and the pruning")


def _beat_seen(name: str, found: str) -> Iterator[Finding]:
    came_at = (
        MaintenanceJob.objects.using(database_alias()).filter(name=BEAT).values_list("ended_at", flat=True).first()
    )
    if came_at is not None and DatabaseClock(database_alias())() - came_at < SEEN_WITHIN:
        yield ok(name, f"{found}, and its messages arrive.")
        return
    last = f"the last one came at {came_at:%F %T} UTC" if came_at else "none has ever come"
    hint = "Start `celery beat`. Without it, workers still deliver, but nothing is pruned."
    yield warn(name, f"{found}, but no message arrived within the last minute: {last}.", hint)


def _tasks_in_settings() -> set[str]:
    return {str(entry.get("task")) for entry in (_celery().conf.beat_schedule or {}).values()}


def _tasks_in_database() -> set[str]:
    entries: Any = apps.get_model("django_celery_beat", "PeriodicTask")
    wanted = entries.objects.filter(enabled=True, task__in=(SWEEP_TASK, PRUNE_TASK))
    return set(wanted.values_list("task", flat=True))


def _celery() -> Any:
    from celery import current_app  # noqa: PLC0415 - only if the project uses Celery

    return current_app
