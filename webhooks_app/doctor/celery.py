"""Examination of Celery: its broker and the schedule of beat."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from queue import Empty, SimpleQueue
from typing import Any

from django.conf import settings as django_settings
from django.db import connections
from django.utils.translation import gettext as _

from ..database.clock import DatabaseClock
from ..maintenance.runner import BEAT
from ..models import MaintenanceJob
from ..models.maintenance import SEEN_WITHIN
from .configuration import BEAT_CHECK, BEAT_TAG, messages_of
from .database import database_alias
from .findings import Finding, fail, ok, warn

BROKER_SECONDS = 2.0
"""Timeout for connecting to the broker."""


def examine_broker(name: str) -> Iterator[Finding]:
    connection = _celery().connection_for_write()
    shown = connection.as_uri()  # with the password masked
    problem = _problem_of_connecting(connection)
    if problem:
        hint = _("Start the broker, or fix CELERY_BROKER_URL. Deliveries stay in the database meanwhile.")
        found = _("%(broker)s does not answer: %(problem)s.")
        yield fail(name, found % {"broker": shown, "problem": problem}, hint)
    else:
        yield ok(name, _("%(broker)s answers.") % {"broker": shown})


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
        return _("no answer within %(seconds)s s") % {"seconds": f"{BROKER_SECONDS * 1.5:g}"}


def examine_beat(name: str) -> Iterator[Finding]:
    if BEAT_CHECK in django_settings.SILENCED_SYSTEM_CHECKS:
        yield ok(name, _("The schedule is not examined: %(check)s is silenced.") % {"check": BEAT_CHECK})
        return
    missing = messages_of(BEAT_TAG, databases=list(connections))
    yield from (warn(name, str(message.msg), str(message.hint)) for message in missing)
    if not missing:
        yield from _beat_seen(name)


def _beat_seen(name: str) -> Iterator[Finding]:
    came_at = (
        MaintenanceJob.objects.using(database_alias()).filter(name=BEAT).values_list("ended_at", flat=True).first()
    )
    if came_at is not None and DatabaseClock(database_alias())() - came_at < SEEN_WITHIN:
        yield ok(name, _("Beat's schedule contains the sweep and the pruning, and its messages arrive."))
        return
    found = _("Beat's schedule contains the sweep and the pruning, but no message has ever arrived.")
    if came_at:
        found = _("The last message of beat arrived at %(time)s UTC.") % {"time": f"{came_at:%F %T}"}
    yield warn(name, found, _("Start `celery beat`. Without it, workers still deliver, but nothing is pruned."))


def _celery() -> Any:
    from celery import current_app  # noqa: PLC0415 - only if the project uses Celery

    return current_app
