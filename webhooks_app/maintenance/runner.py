"""A background thread of a worker process that writes heartbeats and runs the due jobs."""

from __future__ import annotations

import logging
import os
import platform
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Protocol, Self

from django.db import DatabaseError, InterfaceError, connections, router

from .. import __version__
from ..conf import settings
from ..database.clock import DatabaseClock
from ..models import Delivery, MaintenanceJob, WorkerProcess
from ..transport.errors import lacks_descriptors
from .jobs import JOBS, Job, run_due
from .outgoing import wait_for_mails

logger = logging.getLogger("webhooks_app.maintenance")

FEW_DESCRIPTORS = 500
"""A process with a lower limit of open files counts as short of them, unless ``MAX_IN_FLIGHT`` is lower too."""

HEARTBEAT_SECONDS = 5.0

SHORTEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.05, 2.0

FIRST_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 0.5, 10.0

JOIN_SECONDS = 10.0

MAILS_SECONDS = 5.0
"""Maximum time for sending the emails of jobs at the end of the process."""

BEAT = "beat"
"""The name of the job row with the time of the last periodic message from Celery beat."""


class Deliverer(Protocol):
    """The interface of an engine or worker for its heartbeat."""

    @property
    def in_flight(self) -> int:
        """The number of claimed deliveries without a recorded result."""

    @property
    def transport_name(self) -> str:
        """The name of the transport, or "" while there is none."""


class Heartbeat:
    """The row of this process, identified by its host, process number and start time."""

    def __init__(self, using: str, deliverer: Deliverer) -> None:
        self._using = using
        self._deliverer = deliverer
        self._host = platform.node()[:100]
        self._pid = os.getpid()
        self._id = f"{self._host}:{self._pid}:{time.time_ns() // 1_000_000}"
        self._started_at: datetime | None = None

    def beat(self) -> None:
        now = DatabaseClock(self._using)()
        self._started_at = self._started_at or now
        WorkerProcess.objects.using(self._using).update_or_create(
            id=self._id,
            defaults={
                "host": self._host,
                "pid": self._pid,
                "version": __version__,
                "transport": self._deliverer.transport_name,
                "started_at": self._started_at,
                "seen_at": now,
                "in_flight": self._deliverer.in_flight,
                "lacks_descriptors": lacks_descriptors(min(settings.MAX_IN_FLIGHT, FEW_DESCRIPTORS)),
                "database_ahead_ms": round((now - datetime.now(UTC)) / timedelta(milliseconds=1)),
            },
        )

    def end(self) -> None:
        """Delete the row at the regular end of the process."""
        WorkerProcess.objects.using(self._using).filter(id=self._id).delete()


class MaintenanceRunner:
    """A thread with its own database connection, running from ``start`` to ``stop``. Also a context manager."""

    def __init__(self, deliverer: Deliverer, *, jobs: Sequence[Job] = JOBS) -> None:
        self._deliverer = deliverer
        self._jobs = jobs
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._beat_came = threading.Event()
        self._thread: threading.Thread | None = None
        self._pid = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
        self.join()

    def start(self) -> None:
        """Start the thread unless it is running in this process, or was stopped."""
        with self._lock:
            if self._pid == os.getpid() or self._stopping.is_set():
                return
            self._pid = os.getpid()
            self._thread = threading.Thread(target=self._run, name="webhooks_app.maintenance", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop after the current job."""
        self._stopping.set()

    def join(self) -> None:
        """Wait briefly for the end of the current job. Another process would repeat an unfinished job."""
        if self._thread is not None and self._pid == os.getpid():
            self._thread.join(JOIN_SECONDS)

    def reset(self) -> None:
        """Allow another start after a stop."""
        with self._lock:
            self._thread, self._pid = None, 0
            self._stopping.clear()

    def note_beat(self) -> None:
        """Record the arrival of a periodic message from beat. Thread-safe, without blocking."""
        self._beat_came.set()

    def _run(self) -> None:
        using = router.db_for_write(Delivery)
        turns = _Turns(using, Heartbeat(using, self._deliverer), self._jobs, self._beat_came)
        backoff_seconds = 0.0
        while not self._stopping.is_set():
            try:
                pause_seconds = turns.take()
                backoff_seconds = 0.0
            except (DatabaseError, InterfaceError) as error:
                if not backoff_seconds:
                    logger.warning("Upkeep waits for the database: %s", error)
                backoff_seconds = min(max(backoff_seconds * 2, FIRST_BACKOFF_SECONDS), MAX_BACKOFF_SECONDS)
                pause_seconds = backoff_seconds
                connections[using].close()
            self._stopping.wait(pause_seconds)
        with suppress(DatabaseError, InterfaceError):  # the age of the row reveals the end of the process
            turns.end()
        connections.close_all()
        wait_for_mails(MAILS_SECONDS)


class _Turns:
    """One iteration of the thread's loop."""

    def __init__(self, using: str, heartbeat: Heartbeat, jobs: Sequence[Job], beat_came: threading.Event) -> None:
        self._using = using
        self._clock = DatabaseClock(using)
        self._heartbeat = heartbeat
        self._jobs = jobs
        self._beat_came = beat_came
        self._heartbeat_at = 0.0
        self._is_prepared = False

    def take(self) -> float:
        """Run everything that is due. Return the seconds until the next turn."""
        if not self._is_prepared:
            MaintenanceJob.objects.using(self._using).ensure([BEAT, *(job.name for job in self._jobs)])
            self._is_prepared = True
        if time.monotonic() >= self._heartbeat_at:
            self._heartbeat.beat()
            self._write_beat()
            self._heartbeat_at = time.monotonic() + HEARTBEAT_SECONDS
        return self._seconds_to(run_due(self._using, self._clock, self._jobs))

    def end(self) -> None:
        self._heartbeat.end()

    def _write_beat(self) -> None:
        if self._beat_came.is_set():
            self._beat_came.clear()
            MaintenanceJob.objects.using(self._using).filter(name=BEAT).update(ended_at=self._clock())

    def _seconds_to(self, due_at: datetime | None) -> float:
        if due_at is None:  # the table was emptied, or another process runs the jobs
            self._is_prepared = False
            return LONGEST_PAUSE_SECONDS
        seconds = (due_at - self._clock()).total_seconds()
        return min(max(seconds, SHORTEST_PAUSE_SECONDS), LONGEST_PAUSE_SECONDS)
