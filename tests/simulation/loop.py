"""Virtual time: an event loop that runs threads as greenlets, with the waits of ``threading``.

A greenlet runs until it waits. Then the clock jumps to the next event. Nothing else decides about the order, so that
the same program has the same history on every machine.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable
from typing import Any

from greenlet import getcurrent, greenlet


class Killed(BaseException):
    """Raised in the threads of a killed process, so that they end. Nothing that they do afterwards has an effect."""


class SpinningError(AssertionError):
    """Threads run again and again without waiting."""


MAX_EVENTS_AT_A_TIME = 20_000


class Process:
    """A process of the simulated system: its threads, and its clocks.

    ``rate`` is the speed of its clocks, and ``offset`` the error of its wall clock in seconds.
    """

    def __init__(self, loop: Loop, name: str, *, rate: float = 1.0, offset: float = 0.0) -> None:
        self.loop = loop
        self.name = name
        self.is_dead = False
        self.frozen_until = 0.0
        self._rate, self.offset = rate, offset
        self._anchor = loop.now, 1000.0
        self.threads: list[greenlet] = []

    def monotonic(self) -> float:
        at, value = self._anchor
        return value + (self.loop.now - at) * self._rate

    def wall(self) -> float:
        """Return the time of the wall clock in seconds since the beginning."""
        return self.monotonic() + self.offset

    def change_rate(self, rate: float) -> None:
        self._anchor = self.loop.now, self.monotonic()
        self._rate = rate

    def real_seconds(self, seconds: float) -> float:
        """Return the duration of a wait by the clocks of this process."""
        return seconds / self._rate

    def start(self, run: Callable[[], object]) -> greenlet:
        thread = greenlet(lambda: self._run(run), self.loop.hub)
        thread.process = self  # type: ignore[attr-defined]
        self.threads.append(thread)
        self.loop.after(0.0, thread)
        return thread

    def _run(self, run: Callable[[], object]) -> None:
        try:
            run()
        except Killed:
            pass
        except BaseException:
            if not self.is_dead:  # a killed process has no errors
                raise
        finally:
            if not self.is_dead:
                self.threads.remove(getcurrent())

    def kill(self) -> None:
        """End all threads. The current one, if it belongs to the process, ends by the exception."""
        self.is_dead = True
        current = getcurrent()
        for thread in self.threads:
            if thread is not current:
                self.loop.after(0.0, thread)
        if current in self.threads:
            raise Killed


def resume(thread: greenlet) -> None:
    """Continue a thread, or end it if its process is dead."""
    if not thread.process.is_dead:  # type: ignore[attr-defined]
        thread.switch()
    elif thread:
        thread.throw(Killed)


class Loop:
    """The events of a history in the order of their times."""

    def __init__(self) -> None:
        self.now = 0.0
        self.hub = getcurrent()
        self.steps = 0
        """The number of events so far."""
        self._events: list[tuple[float, int, Any]] = []
        self._numbers = itertools.count()
        self.error: BaseException | None = None

    def after(self, seconds: float, what: Any) -> None:
        """Resume a greenlet, or call a function, after this time."""
        heapq.heappush(self._events, (self.now + seconds, next(self._numbers), what))

    def run(self, until: float) -> None:
        """Run all events until this time, or until one raises an error."""
        events, last_at, same = self._events, -1.0, 0
        while events and events[0][0] <= until:
            at, number, what = heapq.heappop(events)
            same = same + 1 if at == last_at else 0
            last_at = at
            if same > MAX_EVENTS_AT_A_TIME:
                raise SpinningError(f"{same} events at the same time")
            if isinstance(what, greenlet):
                if what.dead:
                    continue
                process = what.process  # type: ignore[attr-defined]
                if process.frozen_until > at and not process.is_dead:
                    heapq.heappush(events, (process.frozen_until, number, what))
                    continue
                self.now = max(self.now, at)
                self.steps += 1
                resume(what)
            else:
                self.now = max(self.now, at)
                self.steps += 1
                what()
            if self.error is not None:
                raise self.error
        self.now = max(self.now, until)

    def end(self) -> None:
        """Forget what has not happened yet."""
        self._events.clear()

    def sleep(self, seconds: float) -> None:
        """Let the current thread wait."""
        self.after(seconds, getcurrent())
        self.wait()

    def wait(self) -> None:
        """Let the current thread wait until something resumes it."""
        process = getcurrent().process  # type: ignore[attr-defined]
        if process.is_dead:
            raise Killed
        self.hub.switch()
        if process.is_dead:
            raise Killed


class Event:
    """``threading.Event`` in virtual time."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._is_set = False
        self._waiting: dict[int, greenlet] = {}
        self._numbers = itertools.count()

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        self._resume()

    def _resume(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for number, thread in waiting.items():
            self._loop.after(0.0, lambda thread=thread, number=number: self._continue(thread))

    def _continue(self, thread: greenlet) -> None:
        if not thread.dead:
            process = thread.process  # type: ignore[attr-defined]
            if process.frozen_until > self._loop.now and not process.is_dead:
                self._loop.after(process.frozen_until - self._loop.now, lambda: self._continue(thread))
            else:
                resume(thread)

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        if not self._is_set and (timeout is None or timeout > 0):
            thread = getcurrent()
            number = next(self._numbers)
            self._waiting[number] = thread
            if timeout is not None and timeout < math.inf:
                seconds = thread.process.real_seconds(timeout)  # type: ignore[attr-defined]
                self._loop.after(seconds, lambda: self._time_out(number))
            self._loop.wait()
        return self._is_set

    def _time_out(self, number: int) -> None:
        if thread := self._waiting.pop(number, None):
            self._continue(thread)


class Lock:
    """``threading.Lock`` in virtual time."""

    def __init__(self, loop: Loop) -> None:
        self._free = Event(loop)
        self._is_held = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if self._is_held and blocking and timeout:
            self._free.clear()
            self._free.wait(None if timeout < 0 else timeout)
        if self._is_held:
            return False
        self._is_held = True
        return True

    def release(self) -> None:
        self._is_held = False
        self._free.set()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *exception: object) -> None:
        self.release()
