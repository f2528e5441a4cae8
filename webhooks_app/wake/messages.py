"""Messages that wake workers: PostgreSQL's NOTIFY, and those of a task queue.

No commit waits for a broker, and neither kind is sent for every commit of a busy process.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Collection, Sequence
from multiprocessing.util import Finalize

from django.db import DatabaseError, InterfaceError, connections

from ..database.dialects import dialect_of
from ..delivery.listening import CHANNEL, MORE_FOLLOW
from ..delivery.schedule import UNNOTIFIED_SECONDS
from .base import BaseWake

logger = logging.getLogger("webhooks_app.wake")

MAX_NAMED_WEBHOOKS = 200
"""Webhooks per notification, whose payload is limited to 8,000 bytes."""

PER_SECOND, BURST = 500.0, 50.0
"""The rate of a process's notifications, and how many it may send at once."""


class NotifyRate:
    """The rate limit of a process for notifications. Above it, engines query often enough without them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tokens = BURST
        self._at = -math.inf
        self._quiet_until = -math.inf

    def take(self) -> str | None:
        """Return the prefix of the payload for a commit now, or None to omit the notification.

        Omitted ones count, so that notifications stay suspended while commits exceed the rate.
        """
        now = time.monotonic()
        with self._lock:
            tokens = min(BURST, self._tokens + (now - self._at) * PER_SECOND)
            self._tokens, self._at = max(0.0, tokens - 1), now
            if now < self._quiet_until:
                return None
            if tokens >= 1:
                return ""
            self._quiet_until = now + UNNOTIFIED_SECONDS
            return MORE_FOLLOW


_rate = NotifyRate()


def notify(using: str, webhook_ids: Collection[str] = ()) -> None:
    """Notify engines that these webhooks, or any without ids, have due deliveries. Do nothing on other databases."""
    if not dialect_of(using).can_notify or (prefix := _rate.take()) is None:
        return
    named = ",".join(pk[-32:] for pk in webhook_ids) if len(webhook_ids) <= MAX_NAMED_WEBHOOKS else ""
    try:
        with connections[using].cursor() as cursor:
            cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, prefix + named])
    except (DatabaseError, InterfaceError) as error:
        logger.debug("No notification was sent: %s", error)


class NotifyWake(BaseWake):
    """Notifies the engines of running workers by PostgreSQL's NOTIFY."""

    def wake(self, using: str, webhook_ids: Sequence[str]) -> None:
        notify(using, webhook_ids)


class FoldedCall:
    """Calls ``function`` in a thread, at most once in ``fold_seconds``, without waiting for it.

    A process that ends waits at most ``patience_seconds`` for a call in progress, so that a script that emits an event
    and exits makes its call as well.

    A call requested during another one, or shortly after one, is folded into it. A failure is logged once, and the next
    call is at least ``rest_seconds`` later: the sweep finds missed deliveries.

    The thread stays for ``idle_seconds``, because the caller of ``Thread.start`` would wait for each new one.
    """

    def __init__(
        self,
        function: Callable[[], object],
        *,
        fold_seconds: float = 0.1,
        patience_seconds: float = 0.5,
        rest_seconds: float = 1.0,
        idle_seconds: float = 10.0,
    ) -> None:
        self._function = function
        self._fold_seconds = fold_seconds
        self._patience_seconds = patience_seconds
        self._rest_seconds = rest_seconds
        self._idle_seconds = idle_seconds
        self._is_failing = False
        self._requested_at = 0.0
        self._enter_process()

    def __call__(self) -> None:
        if self._pid != os.getpid():
            self._enter_process()
        with self._lock:
            now = self._requested_at = time.monotonic()
            if not self._is_done.is_set() or now < self._quiet_until:
                return
            self._is_done.clear()
            self._is_wanted.set()
            if not self._has_thread:
                self._start_thread()

    def join(self) -> None:
        """Wait for the call in progress, if there is one, at most ``patience_seconds``."""
        if self._pid == os.getpid():
            self._is_done.wait(self._patience_seconds)

    def _enter_process(self) -> None:
        """Begin anew in this process. A call in progress at its fork belongs to the parent."""
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._has_thread = False
        self._is_wanted, self._is_done = threading.Event(), threading.Event()
        self._is_done.set()
        self._quiet_until = 0.0
        Finalize(None, self.join, exitpriority=0)  # unlike atexit, also at the end of a child of multiprocessing

    def _start_thread(self) -> None:
        try:
            threading.Thread(target=self._run, args=(self._is_wanted,), name="webhooks_app.wake", daemon=True).start()
            self._has_thread = True
        except RuntimeError as error:  # The system has no thread left.
            self._is_wanted.clear()
            self._is_done.set()
            logger.warning("Workers cannot be woken (%s); their sweep finds due deliveries.", error)

    def _run(self, is_wanted: threading.Event) -> None:
        try:
            while True:
                was_set = is_wanted.wait(self._idle_seconds)
                # gevent's threads survive a fork, unlike the system's. Their event is then the parent's.
                if is_wanted is not self._is_wanted or (not was_set and self._leave()):
                    return
                is_wanted.clear()
                self._call_until_done()
        except BaseException:
            self._leave(even_if_wanted=True)
            raise

    def _leave(self, *, even_if_wanted: bool = False) -> bool:
        """End the thread unless a call was requested at the last moment."""
        with self._lock:
            if self._is_wanted.is_set() and not even_if_wanted:
                return False
            self._has_thread = False
            self._is_done.set()
            return True

    def _call_until_done(self) -> None:
        again = True
        while again:
            called_at = time.monotonic()
            quiet_seconds = self._fold_seconds if self._call() else self._rest_seconds
            with self._lock:
                self._quiet_until = called_at + quiet_seconds
                # Requested so late that the last call may have missed it, so call again.
                again = not self._is_failing and self._requested_at > self._quiet_until
                if not again:
                    self._is_done.set()

    def _call(self) -> bool:
        try:
            self._function()
        except Exception as error:  # noqa: BLE001 - no error of a broker's client may reach the caller.
            if not self._is_failing:
                logger.warning("Workers cannot be woken (%s); their sweep finds due deliveries.", error)
            self._is_failing = True
            return False
        if self._is_failing:
            logger.info("Workers can be woken again.")
        self._is_failing = False
        return True


class BaseMessageWake(BaseWake):
    """Sends a message that makes a task queue's worker call ``deliver_in_background`` or ``deliver_until_idle``.

    A process sends at most ten messages a second, from a separate thread, so commits do not wait for them. On
    PostgreSQL it also sends a NOTIFY, which is faster if workers are running.
    """

    def __init__(self) -> None:
        self._send_folded = FoldedCall(self._send)

    @abstractmethod
    def send(self) -> None:
        """Send the message, without retries."""

    def wake(self, using: str, webhook_ids: Sequence[str]) -> None:
        notify(using, webhook_ids)
        self._send_folded()

    def _send(self) -> None:
        try:
            self.send()
        finally:
            connections.close_all()  # of this thread, because some queues are tables
