"""The heartbeat of a worker process, with its current state, in the database."""

from __future__ import annotations

import os
import platform
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

from .. import __version__
from ..conf import settings
from ..database.clock import DatabaseClock
from ..models import WorkerProcess
from ..transport.exhaustion import lacks_descriptors

DESCRIPTORS_SHARE = 4
"""A process with fewer file descriptors than a quarter of ``MAX_IN_FLIGHT`` counts as short of them."""


class Deliverer(Protocol):
    """The interface of an engine or worker for its heartbeat."""

    @property
    def in_flight(self) -> int:
        """The number of claimed deliveries without a recorded result."""

    @property
    def transport_name(self) -> str:
        """The name of the transport, or "" while there is none."""


class Heartbeat:
    """The row of this process, identified by its host, process number and start time."""

    def __init__(self, using: str, deliverer: Deliverer) -> None:
        self._using = using
        self._deliverer = deliverer
        self._host = platform.node()[:100]
        self._pid = os.getpid()
        self._id = f"{self._host}:{self._pid}:{time.time_ns() // 1_000_000}"
        self._started_at: datetime | None = None

    def beat(self) -> None:
        now = DatabaseClock(self._using)()
        self._started_at = self._started_at or now
        WorkerProcess.objects.using(self._using).update_or_create(
            id=self._id,
            defaults={
                "host": self._host,
                "pid": self._pid,
                "version": __version__,
                "transport": self._deliverer.transport_name,
                "started_at": self._started_at,
                "seen_at": now,
                "in_flight": self._deliverer.in_flight,
                "lacks_descriptors": lacks_descriptors(settings.MAX_IN_FLIGHT // DESCRIPTORS_SHARE),
                "database_ahead_ms": round((now - datetime.now(UTC)) / timedelta(milliseconds=1)),
            },
        )

    def end(self) -> None:
        """Delete the row at the regular end of the process."""
        WorkerProcess.objects.using(self._using).filter(id=self._id).delete()
