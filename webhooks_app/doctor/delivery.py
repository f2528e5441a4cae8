"""Examination of the delivery: workers, maintenance jobs and overdue deliveries."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from django.utils.translation import gettext as _

from ..conf import settings
from ..database.clock import DatabaseClock
from ..delivery.sql import oldest_due_at
from ..models import MaintenanceJob, WorkerProcess
from .database import database_alias
from .findings import Finding, fail, ok, warn

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
    seen_at = processes.order_by("-seen_at").values_list("seen_at", flat=True).first()
    found = _("No worker process is running: none has ever been seen.")
    if seen_at:
        found = _("No worker process is running: the last one was seen at %(time)s UTC.")
    yield fail(name, found % {"time": f"{seen_at:%F %T}" if seen_at else ""}, _start_workers())


def _start_workers() -> str:
    return _("Start a Celery worker or `manage.py deliver_webhooks`. Events stay queued until then.")


def _short_of_descriptors() -> list[str]:
    """Return the running processes that lack file descriptors, as host and process number."""
    short = WorkerProcess.objects.using(database_alias()).running().filter(lacks_descriptors=True)
    return [f"{host}:{pid}" for host, pid in short.values_list("host", "pid")]


def examine_jobs(name: str) -> Iterator[Finding]:
    """Yield the errors of the workers' maintenance jobs."""
    failed = MaintenanceJob.objects.using(database_alias()).exclude(error="")
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
