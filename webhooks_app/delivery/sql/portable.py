"""The queue's statements in SQL for SQLite, MariaDB and MySQL."""

from __future__ import annotations

from .claiming import ClaimingSql
from .recording import RecordingSql


class PortableSql(ClaimingSql, RecordingSql):
    """Statements that read and write many deliveries at once."""
