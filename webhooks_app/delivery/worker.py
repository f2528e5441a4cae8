"""One engine in a thread of its own for this process, started when it is first woken.

A thread rather than the task that wakes it: Celery closes Django's connections after every task, and an engine that
lingers would keep the host's own tasks waiting.
"""

from __future__ import annotations

import gc
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
        """Have this process's engine look for due deliveries now; start it if need be."""
        with self._lock:
            if self._stopping.is_set():
                return
            if self._thread is None or not self._thread.is_alive() or self._pid != os.getpid():
                self._start()
            engine = self._engine
        if engine is not None:
            engine.wake()

    def stop(self) -> None:
        """Claim nothing more from now on; what is in flight goes on."""
        with self._lock:
            self._stopping.set()
            engine = self._engine if self._pid == os.getpid() else None
        if engine is not None:
            engine.stop()

    def join(self) -> None:
        """Wait until what is in flight has ended and is recorded: the timeout of an attempt at most, and a little."""
        thread = self._thread
        if thread is not None and self._pid == os.getpid():
            thread.join(settings.TIMEOUT_SECONDS + 2 * STOP_GRACE_SECONDS)

    def reset(self) -> None:
        """Be ready for work again after a stop."""
        with self._lock:
            self._thread = self._engine = None
            self._stopping.clear()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._engine = None
        self._thread = threading.Thread(target=self._run, name="webhooks_app.delivery", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        # What is loaded by now stays: the garbage collector need not look at it for every few hundred deliveries.
        gc.freeze()
        while not self._stopping.is_set():
            try:
                engine = self._new_engine()
                engine.run()
            except Exception:  # Whatever it was, leases bring back what this engine had; a new one goes on.
                logger.exception("The delivery engine failed; starting another in %s s.", RESTART_AFTER_SECONDS)
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
