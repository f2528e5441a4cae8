"""Requests that fail because this process or its machine lacks a resource, such as file descriptors."""

from __future__ import annotations

import errno
import logging
import threading
import time
from collections.abc import Callable

from ..plurals import counted
from . import errors
from .base import TransportError

logger = logging.getLogger("webhooks_app.transport")

LOG_SECONDS = 60.0
"""Time after a record in which further failures are only counted."""

EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


def is_exhaustion(error: BaseException) -> bool:
    """Return True if the error means that the sender, not the receiver, lacks a resource."""
    return isinstance(error, OSError) and error.errno in EXHAUSTED


class ExhaustionLog:
    """Log at most one failure per minute, because all requests fail for the same reason. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._next_at = 0.0
        self._omitted = 0

    def add(self, error: BaseException) -> None:
        """Log the failure of a request, or count it for the next record."""
        with self._lock:
            now = self._clock()
            if now < self._next_at:
                self._omitted += 1
                return
            self._next_at = now + LOG_SECONDS
            failed, self._omitted = self._omitted + 1, 0
        text = (
            "%s could not be sent, because the worker lacks a resource: %s."
            " Raise its limits (ulimit -n), or lower WEBHOOKS_MAX_IN_FLIGHT."
        )
        logger.error(text, counted(failed, "request"), error)


exhaustion_log = ExhaustionLog()
"""The log of this process."""


def error_of(cause: BaseException, blamed: TransportError) -> TransportError:
    """Return the error of a request: ``blamed``, or an internal error, logged, if the sender lacks a resource."""
    if not is_exhaustion(cause):
        return blamed
    exhaustion_log.add(cause)
    return errors.internal_error()
