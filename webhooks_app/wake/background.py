"""Delivery inside the worker of a task queue."""

from __future__ import annotations

import os
import threading
from multiprocessing.util import Finalize

from ..delivery.engine import Engine
from ..delivery.worker import worker
from ..maintenance.runner import MaintenanceRunner


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
