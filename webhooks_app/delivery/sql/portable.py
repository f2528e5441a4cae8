"""The queue's statements in SQL for every database. PostgreSQL replaces the most frequent ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from .claiming import ClaimingSql
from .recording import RecordingSql


class PortableSql(ClaimingSql, RecordingSql):
    """Statements that read and write many deliveries at once."""


class MysqlSql(PortableSql):
    probes_hint = "FORCE INDEX (webhooks_queue_probes)"
    """Otherwise they read the whole backlog in the order of due times."""


class SqliteSql(PortableSql):
    """A batch is read as one row of JSON.

    The driver releases the global interpreter lock for every row. The sending thread would acquire it each time.
    """

    slow_claims_apart = timedelta(seconds=0.25)  # each holds the only write lock, for results and emitters too
    changes_are_free = True
    changes_sql = "PRAGMA data_version"
    """A number in shared memory that changes with every commit of another connection."""

    def fetch_batch(self, sql: str, params: Sequence[Any], *, columns: int) -> Sequence[Sequence[Any]]:
        names = ", ".join(f"value_{number}" for number in range(columns))
        wrapped = f"WITH batch ({names}) AS ({sql}) SELECT json_group_array(json_array({names})) FROM batch"
        rows: list[list[Any]] = json.loads(self.fetch(wrapped, params)[0][0])
        return rows
