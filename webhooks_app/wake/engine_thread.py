"""Delivery inside the worker of a task queue: an engine in a thread, which the first wake-up starts.

The thread is independent of Celery tasks: Celery closes Django's connections after every task, and a lingering engine
would delay the host's own tasks.
"""

from __future__ import annotations

import logging
import os
import threading
from multiprocessing.util import Finalize

from django.db import connections

from ..conf import settings
from ..delivery.engine import Engine
from ..delivery.worker import STOP_GRACE_SECONDS
from ..maintenance.runner import MaintenanceRunner

logger = logging.getLogger("webhooks_app.delivery")

RESTART_AFTER_SECONDS = 1.0


class Worker:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pid = 0
        self._thread: threading.Thread | None = None
        self._engine: Engine | None = None
        self._stopping = threading.Event()

    @property
    def in_flight(self) -> int:
        engine = self._engine
        return engine.in_flight if engine is not None else 0

    @property
    def transport_name(self) -> str:
        engine = self._engine
        return engine.transport_name if engine is not None else ""

    def wake(self) -> None:
        """Query for due deliveries now. Start the engine if necessary."""
        with self._lock:
            if self._stopping.is_set():
                return
            if self._thread is None or not self._thread.is_alive() or self._pid != os.getpid():
                self._start()
            engine = self._engine
        if engine is not None:
            engine.wake()

    def stop(self) -> None:
        """Stop claiming. Requests in flight continue."""
        with self._lock:
            self._stopping.set()
            engine = self._engine if self._pid == os.getpid() else None
        if engine is not None:
            engine.stop()

    def join(self) -> None:
        """Wait until all requests in flight are recorded, at most a little longer than the timeout of an attempt."""
        thread = self._thread
        if thread is not None and self._pid == os.getpid():
            thread.join(settings.TIMEOUT_SECONDS + 2 * STOP_GRACE_SECONDS)

    def reset(self) -> None:
        """Allow another start after a stop."""
        with self._lock:
            self._thread = self._engine = None
            self._stopping.clear()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._engine = None
        self._thread = threading.Thread(target=self._run, name="webhooks_app.delivery", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                engine = self._new_engine()
                engine.run()
            except Exception:  # Leases bring back the claims, and a new engine continues.
                logger.exception("The delivery engine failed. Starting another in %s s.", RESTART_AFTER_SECONDS)
                self._stopping.wait(RESTART_AFTER_SECONDS)
            finally:
                connections.close_all()

    def _new_engine(self) -> Engine:
        engine = Engine(database_thread=True, is_woken=True)
        with self._lock:
            self._engine = engine
            if self._stopping.is_set():
                engine.stop()
        return engine


worker = Worker()


class Background:
    """The engine and the upkeep of this process, in threads beside the tasks that start them."""

    def __init__(self) -> None:
        self._maintenance = MaintenanceRunner(worker)
        self._lock = threading.Lock()
        self._pid = 0

    def start(self) -> None:
        """Start unless already started; look for due deliveries now."""
        worker.wake()
        self._maintenance.start()

    def start_until_exit(self) -> None:
        """Start, and finish when this process exits."""
        with self._lock:
            if self._pid != os.getpid():
                self._pid = os.getpid()
                # Runs at the end of a child of multiprocessing too, where atexit does not.
                Finalize(None, self.finish, exitpriority=0)
        self.start()

    def note_beat(self) -> None:
        self._maintenance.note_beat()

    def stop(self) -> None:
        """Start no further deliveries."""
        worker.stop()
        self._maintenance.stop()

    def finish(self) -> None:
        """Stop, and wait for all deliveries in flight."""
        self.stop()
        worker.join()
        self._maintenance.join()

    def reset(self) -> None:
        """Allow another start after a stop."""
        worker.reset()
        self._maintenance.reset()


background = Background()


def deliver_in_background() -> None:
    """Start or wake the engine of this process, and return immediately. For long-lived worker processes.

    The engine delivers in threads of its own until the process exits.
    """
    background.start_until_exit()


def deliver_until_idle(max_seconds: float = 120.0) -> None:
    """Deliver all that is due, make the resulting retries, and return. For workers with a process for each task.

    After ``max_seconds`` no more deliveries are claimed, and the requests in flight end first.
    """
    engine = Engine(database_thread=True)
    timer = threading.Timer(max_seconds, engine.stop)
    timer.daemon = True
    timer.start()
    try:
        with MaintenanceRunner(engine):
            engine.run_until_idle()
    finally:
        timer.cancel()
