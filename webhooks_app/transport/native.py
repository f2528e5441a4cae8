"""The default transport: thousands of concurrent requests in one thread, with the standard library alone."""

from __future__ import annotations

import heapq
import itertools
import logging
import time
from collections import deque
from collections.abc import Collection
from functools import partial

from . import errors
from .base import Exchange, Request, TransportOptions
from .connections import READ, Connection, SocketPoller, Steps, Wait
from .resolver import LookupAnswer
from .sender import SendingTransport
from .transfer import Transfer

logger = logging.getLogger("webhooks_app.transport")

MAX_OPEN_REQUESTS = 100_000
SPARE_TIMERS = 64
"""Timers beyond twice the waiting transfers, before the superseded ones are dropped."""

NEVER = float("inf")
NOTHING = Wait(NEVER)


class _Running:
    """A transfer in the loop, and what it waits for."""

    __slots__ = ("steps", "timer_at", "transfer", "wait")

    def __init__(self, transfer: Transfer) -> None:
        self.transfer = transfer
        self.steps: Steps[Exchange] = transfer.steps()
        self.wait = NOTHING
        self.timer_at = NEVER
        """The time of its first timer. Later ones are superseded."""


class _Timers:
    """The transfers by the end of their waits. A wait that ends sooner leaves its timer behind."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, _Running]] = []
        self._most = SPARE_TIMERS
        self._numbers = itertools.count()

    @property
    def next_at(self) -> float:
        """The time of the first timer, even if it is superseded."""
        return self._heap[0][0] if self._heap else NEVER

    def set(self, running: _Running) -> None:
        """Set a timer for the wait of a transfer, unless it has an earlier one."""
        if running.wait.until < running.timer_at:
            running.timer_at = running.wait.until
            heapq.heappush(self._heap, (running.timer_at, next(self._numbers), running))
            if len(self._heap) > self._most:
                self._drop_superseded()

    def due(self, now: float) -> list[_Running]:
        """Return the transfers whose wait has reached its end. They have no timer any more."""
        due = []
        while self._heap and self._heap[0][0] <= now:
            at, _, running = heapq.heappop(self._heap)
            if at != running.timer_at:
                continue
            running.timer_at = NEVER
            if 0 < running.wait.until <= now:
                due.append(running)
            elif running.wait.until:
                self.set(running)
        return due

    def clear(self) -> None:
        self._heap.clear()

    def _drop_superseded(self) -> None:
        self._heap = [timer for timer in self._heap if timer[0] == timer[2].timer_at and timer[2].wait is not NOTHING]
        heapq.heapify(self._heap)
        self._most = 2 * len(self._heap) + SPARE_TIMERS


class NativeTransport(SendingTransport):
    """Run all transfers in an event loop. The first use in a process creates it."""

    name = "native"

    def __init__(self, options: TransportOptions | None = None) -> None:
        super().__init__(options, at_most=MAX_OPEN_REQUESTS)
        self._sender.sockets.on_close = self._on_close
        self._poller: SocketPoller | None = None
        self._running: set[_Running] = set()
        self._by_fd: dict[int, _Running | Connection] = {}
        self._answered: deque[tuple[_Running, LookupAnswer]] = deque()
        self._again: list[_Running] = []
        self._timers = _Timers()
        self.begin_again_after_forks()

    def start(self, request: Request) -> None:
        self._in_flight += 1
        running = _Running(Transfer(request, self._sender))
        self._running.add(running)
        self._continue(running)

    def wait(self, timeout_seconds: float) -> list[Exchange]:
        poller = self._opened()
        deadline = time.monotonic() + timeout_seconds
        while True:
            self._take_turns()
            for fd in poller.wait(self._pause_until(deadline)):
                self._attend(fd)
            self._take_answers()
            for running in self._timers.due(time.monotonic()):
                self._continue(running)
            if self._finished or self._woken or time.monotonic() >= deadline:
                break
        return self._take_finished()

    def wake(self) -> None:
        self._woken = True
        self._interrupt()

    def close(self) -> None:
        for running in self._running:
            running.steps.close()
        self._running.clear()
        self._timers.clear()
        self._sender.close()
        self._close_loop()
        self._by_fd.clear()
        self._again.clear()
        self._answered.clear()
        self._finished.clear()
        self._in_flight = 0

    def begin_again(self) -> None:
        self._close_loop()
        super().begin_again()

    def _opened(self) -> SocketPoller:
        if self._poller is None:
            self._poller = SocketPoller()
        return self._poller

    def _close_loop(self) -> None:
        if self._poller is not None:
            self._poller.close()
            self._poller = None

    def _interrupt(self) -> None:
        if (poller := self._poller) is not None:
            poller.interrupt()

    def _pause_until(self, deadline: float) -> float:
        if self._finished or self._woken or self._answered or self._again:
            return 0.0
        return max(0.0, min(deadline, self._timers.next_at) - time.monotonic())

    def _attend(self, fd: int) -> None:
        """Continue the transfer of a ready socket, or close an idle connection that is not silent."""
        ready = self._by_fd.get(fd)
        if isinstance(ready, _Running):
            if ready.wait.until:  # otherwise it has had its turn
                self._continue(ready, (fd,))
        elif ready is not None and not ready.is_silent():
            self._sender.kept.drop(ready)

    def _take_answers(self) -> None:
        while self._answered:
            running, answer = self._answered.popleft()
            if running.wait.answer is answer:
                self._continue(running)

    def _take_turns(self) -> None:
        again, self._again = self._again, []
        for running in again:
            if not running.wait.until:
                self._continue(running)

    def _continue(self, running: _Running, ready: Collection[int] | None = None) -> None:
        before = running.wait
        try:
            running.wait = running.steps.send(ready or ()) if before is not NOTHING else next(running.steps)
        except StopIteration as stop:
            self._finish(running, stop.value)
        except Exception:  # a defect must end one request only
            logger.exception("A request could not be sent")
            self._finish(running, Exchange(running.transfer.request, 0.0, error=errors.internal_error()))
        else:
            self._watch(running, before)

    def _watch(self, running: _Running, before: Wait) -> None:
        """Watch the sockets for which a transfer waits now, instead of those before."""
        poller, wait = self._opened(), running.wait
        for fd in before.sockets:
            if fd not in wait.sockets and self._by_fd.get(fd) is running:
                del self._by_fd[fd]
                poller.watch(fd, 0)
        for fd, events in wait.sockets.items():
            self._by_fd[fd] = running
            poller.watch(fd, events)
        if wait.answer is not None and wait.answer is not before.answer:
            wait.answer.add_done_callback(partial(self._on_answer, running, wait.answer))
        if wait.until:
            self._timers.set(running)
        else:
            self._again.append(running)

    def _finish(self, running: _Running, exchange: Exchange) -> None:
        self._running.discard(running)
        self._finished.append(exchange)
        running.wait = NOTHING
        connection = running.transfer.connection
        if connection is not None and connection.fd >= 0:
            self._by_fd[connection.fd] = connection
            self._opened().watch(connection.fd, READ)

    def _on_answer(self, running: _Running, answer: LookupAnswer, _: object) -> None:
        self._answered.append((running, answer))
        self._interrupt()

    def _on_close(self, fd: int) -> None:
        self._by_fd.pop(fd, None)
        if self._poller is not None:
            self._poller.forget(fd)
