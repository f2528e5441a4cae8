"""Telling the database that this process is there, and what it is doing."""

from __future__ import annotations

import os
import platform
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

from .. import __version__
from ..database.clock import DatabaseClock
from ..models import WorkerProcess


class Deliverer(Protocol):
    """What a process delivers with: an engine, or a worker that has one."""

    @property
    def in_flight(self) -> int:
        """How many deliveries are claimed and not yet recorded."""

    @property
    def transport_name(self) -> str:
        """How it sends; "" while it does not."""


class Heartbeat:
    """Writes a row that is this process's own: its machine, number and start make up the name."""

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
                "database_ahead_ms": round((now - datetime.now(UTC)) / timedelta(milliseconds=1)),
            },
        )

    def end(self) -> None:
        """Take the row away: the process ends as it should."""
        WorkerProcess.objects.using(self._using).filter(id=self._id).delete()
