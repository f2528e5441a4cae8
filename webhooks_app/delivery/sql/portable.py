"""The queue's statements in SQL that SQLite, MariaDB and MySQL understand."""

from __future__ import annotations

from .claiming import ClaimingSql
from .recording import RecordingSql


class PortableSql(ClaimingSql, RecordingSql):
    """Reads and writes many deliveries at once."""
