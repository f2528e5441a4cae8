"""A bounded pool of daemon threads. A hanging function blocks neither the caller nor the end of the process."""

from __future__ import annotations

import errno
import threading
from collections import deque
from collections.abc import Callable

IDLE_SECONDS = 10.0


class DaemonThreads:
    """Run functions in at most ``limit`` threads, started on demand and ended when idle. Queue the rest."""

    def __init__(self, name: str, limit: int) -> None:
        self._name = name
        self._limit = limit
        self._changed = threading.Condition()
        self._waiting: deque[Callable[[], None]] = deque()
        self._running = 0
        self._idle = 0
        self._closed = False

    def submit(self, work: Callable[[], None]) -> None:
        """Run ``work`` in a thread of the pool. It must not raise.

        Raise OSError, and discard ``work``, if the pool has no thread and cannot start one.
        """
        with self._changed:
            self._waiting.append(work)
            if self._idle >= len(self._waiting):
                self._changed.notify()
            elif self._running < self._limit:
                self._begin_thread()

    def close(self) -> None:
        """Discard queued functions, and end each thread after its current one."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()

    def _begin_thread(self) -> None:
        self._running += 1
        try:
            threading.Thread(target=self._run, name=self._name, daemon=True).start()
        except RuntimeError as error:
            self._running -= 1
            if not self._running:  # otherwise a running thread takes the work
                self._waiting.pop()
                raise OSError(errno.ENOMEM, str(error)) from error

    def _run(self) -> None:
        while (work := self._next()) is not None:
            work()
            del work  # so that an idle thread references no request

    def _next(self) -> Callable[[], None] | None:
        with self._changed:
            self._idle += 1
            self._changed.wait_for(lambda: self._waiting or self._closed, IDLE_SECONDS)
            self._idle -= 1
            if self._waiting:
                return self._waiting.popleft()
            self._running -= 1
            return None
