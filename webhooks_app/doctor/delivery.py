"""Examination of the delivery: workers, jobs, overdue deliveries, receivers, and Celery with its broker and beat."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from queue import Empty, SimpleQueue
from typing import Any

from django.conf import settings as django_settings
from django.db import connections
from django.db.models import Max
from django.utils import timezone
from django.utils.translation import gettext as _

from ..conf import BEAT_TAG, settings
from ..database.clock import DatabaseClock
from ..delivery.sql import oldest_due_at
from ..maintenance.runner import BEAT
from ..models import MaintenanceJob, Webhook, WorkerProcess
from ..models.maintenance import SEEN_WITHIN
from ..models.standing import Standing, conditions
from .findings import Finding, fail, ok, warn
from .surroundings import BEAT_CHECK, database_alias, messages_of

DUE_WARNING, DUE_ERROR = timedelta(seconds=30), timedelta(minutes=5)
"""Tolerated delay of the most overdue delivery, unless a few sweeps take longer."""


def tolerated(delay: timedelta) -> timedelta:
    """Return the tolerated delay, at least the time of a few sweeps."""
    return max(delay, timedelta(seconds=3 * settings.SWEEP_SECONDS))


def examine_workers(name: str) -> Iterator[Finding]:
    processes = WorkerProcess.objects.using(database_alias())
    alive = processes.running().count()
    if short := _short_of_descriptors():
        found = _("Worker processes short of file descriptors: %(number)d (%(processes)s).")
        hint = _(
            "They send fewer requests at a time than WEBHOOKS_MAX_IN_FLIGHT allows, or cannot send some. Raise the "
            "limit of open files: `ulimit -n`, or LimitNOFILE of the systemd unit."
        )
        yield warn(name, found % {"number": len(short), "processes": ", ".join(short[:5])}, hint)
    elif alive:
        yield ok(name, _("Running worker processes: %(number)d.") % {"number": alive})
    if alive:
        return
    # A process that ends deletes its row. The jobs that it ran remain.
    ran = MaintenanceJob.objects.using(database_alias()).aggregate(at=Max("ended_at"))["at"]
    seen = processes.aggregate(at=Max("seen_at"))["at"]
    at = max((each for each in (ran, seen) if each is not None), default=None)
    found = _("No worker process is running: none has run since the installation.")
    if at is not None:
        found = _("No worker process is running: the last one stopped at %(time)s UTC.")
    yield fail(name, found % {"time": f"{at:%F %T}" if at else ""}, _start_workers())


def _start_workers() -> str:
    return _("Start a Celery worker or `manage.py deliver_webhooks`. Events stay queued until then.")


def _short_of_descriptors() -> list[str]:
    """Return the running processes that lack file descriptors, as host and process number."""
    short = WorkerProcess.objects.using(database_alias()).running().filter(lacks_descriptors=True)
    return [f"{host}:{pid}" for host, pid in short.values_list("host", "pid")]


def examine_jobs(name: str) -> Iterator[Finding]:
    """Yield the errors of the workers' maintenance jobs."""
    jobs = MaintenanceJob.objects.using(database_alias())
    if not jobs.filter(ended_at__isnull=False).exists():
        yield ok(name, _("No maintenance job has run yet: workers run them."))
        return
    failed = jobs.exclude(error="")
    for job, error in failed.values_list("name", "error"):
        found = _("The job '%(job)s' failed: %(error)s") % {"job": job, "error": error}
        yield warn(name, found, _("See the log of the workers for the traceback."))
    if not failed:
        yield ok(name, _("The last run of every maintenance job succeeded."))


def examine_due(name: str) -> Iterator[Finding]:
    """Measure the delay of the most overdue delivery."""
    now = DatabaseClock(database_alias())()
    due_at = oldest_due_at(database_alias(), now)
    late = now - due_at if due_at else timedelta()
    if due_at is None or late < tolerated(DUE_WARNING):
        found = _("No delivery is overdue by more than %(seconds)s s.")
        yield ok(name, found % {"seconds": f"{tolerated(DUE_WARNING).total_seconds():g}"})
        return
    is_running = WorkerProcess.objects.using(database_alias()).running().exists()
    hint = _(
        "Check that workers run and consume the queue of webhooks_app.deliver_due. If they do, add workers, or raise "
        "the limits of a webhook that receives more than they allow. `manage.py estimate_capacity` calculates "
        "the capacity that you need."
    )
    if not is_running:
        hint = _start_workers()
    found = _("A delivery is overdue by %(span)s (due at %(time)s UTC).") % {
        "span": timedelta(seconds=round(late.total_seconds())),
        "time": f"{due_at:%F %T}",
    }
    yield (warn if late < tolerated(DUE_ERROR) else fail)(name, found, hint)


BROKER_SECONDS = 2.0
"""Timeout for connecting to the broker."""


def examine_receivers(name: str) -> Iterator[Finding]:
    """Count the webhooks whose receivers fail. Their owners repair them, so they are no fault of the delivery."""
    webhooks = Webhook.objects.using(database_alias()).existing().order_by()
    is_in = conditions(timezone.now())
    numbers = {each: webhooks.filter(is_in[each]).count() for each in (Standing.FAILING, Standing.PARTLY_FAILING)}
    found = ", ".join(f"{each.label} ({number})" for each, number in numbers.items() if number)
    yield ok(name, _("Webhooks in trouble: %(found)s.") % {"found": found} if found else _("No webhook is failing."))


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
