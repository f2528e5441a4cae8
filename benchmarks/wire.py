"""Counts of statements and round trips between this process and PostgreSQL, from libpq's trace of messages."""

from __future__ import annotations

import os
import re
import tempfile
from collections import Counter
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any

from django.db import connection
from psycopg.pq import Trace

_MESSAGE = re.compile(rb"([FB])\t\d+\t(\w+)")
STATEMENTS = (b"Query", b"Execute")


@contextmanager
def counting(counts: Counter[str]) -> Generator[None]:
    """Add the ``statements`` and ``round_trips`` of Django's connection in this block to ``counts``."""
    driver: Any = connection.connection
    with tempfile.TemporaryFile() as file:
        copy = os.dup(file.fileno())  # psycopg writes to it as long as the connection exists
        driver.pgconn.trace(copy)
        driver.pgconn.set_trace_flags(Trace.SUPPRESS_TIMESTAMPS)
        try:
            yield
        finally:
            driver.pgconn.untrace()
            os.close(copy)
        if driver is not connection.connection:
            raise RuntimeError("The connection was replaced, so its statements were not counted.")
        file.seek(0)
        counts.update(counted(file))


def counted(lines: Iterable[bytes]) -> dict[str, int]:
    """Return the counts of a trace. ``F`` marks a message to the server, ``B`` a message from it.

    A round trip begins with each message to the server after a message from it.
    """
    statements = round_trips = 0
    last = b"B"
    for line in lines:
        if message := _MESSAGE.match(line):
            way, kind = message.groups()
            statements += way == b"F" and kind in STATEMENTS
            round_trips += (last, way) == (b"B", b"F")
            last = way
    return {"statements": statements, "round_trips": round_trips}
