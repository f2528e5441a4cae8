"""The contract of a wake-up, a base class for wake-ups that send messages, and those without a task queue.

The signal handler ``wake_workers`` calls the one that ``WEBHOOKS_WAKE`` chooses.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.util import Finalize
from typing import Any
from weakref import WeakSet

from django.db import connections, router

from ..conf import settings
from ..database.dialects import dialect_of
from ..delivery.looks import notify
from ..implementations import Implementations
from ..models import Delivery

logger = logging.getLogger("webhooks_app.wake")

AUTO = "auto"

_with_broker: WeakSet[Any] = WeakSet()
"""Celery's apps that have a broker, because reading their configuration takes time in each commit."""

_awake = 0
"""The number of blocks that wake workers although a test is running."""


class BaseWake(ABC):
    """Wakes workers after a commit. Each process has one instance.

    A wake-up carries no state. If one is lost, a running engine finds the due deliveries with its next sweep. Workers
    without a running engine find them with the next wake-up.
    """

    @abstractmethod
    def wake(self, using: str, webhook_ids: Sequence[str]) -> None:
        """Wake workers of the database ``using`` for due deliveries of these webhooks, or of any if none is named.

        Called after each commit in the committing thread, so it must not block. Exceptions are logged.
        """


class NoWake(BaseWake):
    """Does nothing: workers find due deliveries by themselves."""

    def wake(self, using: str, webhook_ids: Sequence[str]) -> None:
        """Do nothing."""


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


WAKES: Implementations[BaseWake] = Implementations(
    BaseWake,  # type: ignore[type-abstract]
    {
        "celery": "webhooks_app.wake.celery.CeleryWake",
        "notify": "webhooks_app.wake.base.NotifyWake",
        "django_tasks": "webhooks_app.wake.django_tasks.DjangoTasksWake",
        "none": "webhooks_app.wake.base.NoWake",
    },
)


def wake_workers(webhook_ids: Sequence[str] = (), **kwargs: Any) -> None:
    """Signal handler of ``deliveries_created``."""
    if not is_silent():
        configured_wake().wake(router.db_for_write(Delivery), webhook_ids)


def is_silent() -> bool:
    """Return True in tests set up by Django's and pytest-django's runners, except in ``waking_workers``."""
    if _awake:
        return False
    utils = sys.modules.get("django.test.utils")
    return hasattr(getattr(utils, "_TestState", None), "saved_data")


@contextmanager
def waking_workers() -> Iterator[None]:
    """Wake workers within this block, in all threads, although a test is running."""
    global _awake  # noqa: PLW0603 - of the whole process
    _awake += 1
    try:
        yield
    finally:
        _awake -= 1


def configured_wake() -> BaseWake:
    """Return this process's instance. Raises ValueError for an invalid path."""
    return WAKES.one(chosen_wake())


def chosen_wake() -> str:
    """Return the name or dotted path of the wake-up that ``WEBHOOKS_WAKE`` chooses."""
    name = str(settings.WAKE)  # the system checks report a value of another type
    name = _automatic() if name == AUTO else name
    return next((short for short, path in WAKES.built_in.items() if path == name), name)


def uses_celery() -> bool:
    """Return True if Celery wakes the workers, without importing it."""
    return chosen_wake() == "celery"


def _automatic() -> str:
    """Return "celery" if the host has configured a broker; otherwise the best choice for the database."""
    if has_broker():
        return "celery"
    return "notify" if dialect_of(router.db_for_write(Delivery)).can_notify else "none"


def has_broker() -> bool:
    """Return True if the host has imported Celery and configured a broker."""
    celery: Any = sys.modules.get("celery")  # imported by every host that configures it
    if celery is None:
        return False
    app = celery.current_app._get_current_object()  # noqa: SLF001 - of Celery's proxy
    if app in _with_broker:
        return True
    if app.conf.broker_write_url or app.conf.broker_transport:
        _with_broker.add(app)
        return True
    return bool(app.conf.task_always_eager)
