"""A bounded pool of daemon threads: work that hangs can keep neither its caller nor the process alive."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

IDLE_SECONDS = 10.0


class DaemonThreads:
    """Runs functions in at most ``limit`` threads, begun as needed and ended when idle; the rest wait their turn."""

    def __init__(self, name: str, limit: int) -> None:
        self._name = name
        self._limit = limit
        self._changed = threading.Condition()
        self._waiting: deque[Callable[[], None]] = deque()
        self._running = 0
        self._idle = 0
        self._closed = False

    def submit(self, work: Callable[[], None]) -> None:
        """Run ``work``, which may not raise, in a thread of the pool.

        Raises RuntimeError, and forgets the work, where the pool has no thread and the system gives it none.
        """
        with self._changed:
            self._waiting.append(work)
            if self._idle >= len(self._waiting):
                self._changed.notify()
            elif self._running < self._limit:
                self._begin_thread()

    def close(self) -> None:
        """Forget what has not begun, and let every thread end after what it is doing."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()

    def _begin_thread(self) -> None:
        self._running += 1
        try:
            threading.Thread(target=self._run, name=self._name, daemon=True).start()
        except RuntimeError:
            self._running -= 1
            if not self._running:  # otherwise the work waits for one of those
                self._waiting.pop()
                raise

    def _run(self) -> None:
        while (work := self._next()) is not None:
            work()
            del work  # an idle thread keeps no request alive

    def _next(self) -> Callable[[], None] | None:
        with self._changed:
            self._idle += 1
            self._changed.wait_for(lambda: self._waiting or self._closed, IDLE_SECONDS)
            self._idle -= 1
            if self._waiting:
                return self._waiting.popleft()
            self._running -= 1
            return None
