"""Requests that fail because this process or its machine lacks a resource, such as file descriptors."""

from __future__ import annotations

import errno
import logging
import math
import resource
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ..plurals import counted
from . import errors
from .base import TransportError

logger = logging.getLogger("webhooks_app.transport")

LOG_SECONDS = 60.0
"""Time after a record in which further failures are only counted."""

RESERVED_DESCRIPTORS = 32
"""Descriptors for database connections, files and the host's own code, besides those open at the start."""

LOOKUPS_SHARE = 4
"""Lookups of names may use a quarter of the free descriptors."""

SHORT_SECONDS = 300.0
"""Time after a failure in which the process counts as short of a resource."""

EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Descriptors(NamedTuple):
    """The sockets that the limit on open files (``ulimit -n``) leaves to a transport."""

    connections: int
    lookups: int


def free_descriptors(most_lookups: int) -> Descriptors:
    """Return the sockets that this process can still open, less a reserve."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return Descriptors(sys.maxsize, most_lookups)
    free = max(2, limit - sum(1 for _ in Path("/dev/fd").iterdir()) - RESERVED_DESCRIPTORS)
    lookups = min(most_lookups, free // LOOKUPS_SHARE)
    return Descriptors(max(1, free - lookups), max(1, lookups))


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
        self._failed_at = -math.inf

    @property
    def is_recent(self) -> bool:
        """Whether a request has failed within the last minutes."""
        return self._clock() - self._failed_at < SHORT_SECONDS

    def add(self, error: BaseException) -> None:
        """Log the failure of a request, or count it for the next record."""
        with self._lock:
            now = self._failed_at = self._clock()
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


def lacks_descriptors(wanted: int) -> bool:
    """Return True if the limit on open files is below ``wanted``, or if it has been too low for a recent request."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return exhaustion_log.is_recent or (limit != resource.RLIM_INFINITY and limit < wanted)


def error_of(cause: BaseException, blamed: TransportError) -> TransportError:
    """Return the error of a request: ``blamed``, or an internal error, logged, if the sender lacks a resource."""
    if not is_exhaustion(cause):
        return blamed
    exhaustion_log.add(cause)
    return errors.internal_error()
