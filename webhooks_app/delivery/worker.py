"""The engine of a worker process, started in a thread by the first wake-up.

The thread is independent of Celery tasks: Celery closes Django's connections after every task, and a lingering engine
would delay the host's own tasks.
"""

from __future__ import annotations

import logging
import os
import threading

from django.db import connections

from ..conf import settings
from .dispatcher import STOP_GRACE_SECONDS
from .engine import Engine

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
