"""The queue's statements for SQLite. They read a batch as one row of JSON.

The driver releases the global interpreter lock for every row. The sending thread would acquire it each time.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from .portable import PortableSql


class SqliteSql(PortableSql):
    slow_claims_apart = timedelta(seconds=0.25)  # each holds the only write lock, for results and emitters too
    changes_are_free = True
    changes_sql = "PRAGMA data_version"
    """A number in shared memory that changes with every commit of another connection."""

    def fetch_batch(self, sql: str, params: Sequence[Any], *, columns: int) -> Sequence[Sequence[Any]]:
        names = ", ".join(f"value_{number}" for number in range(columns))
        wrapped = f"WITH batch ({names}) AS ({sql}) SELECT json_group_array(json_array({names})) FROM batch"
        rows: list[list[Any]] = json.loads(self.fetch(wrapped, params)[0][0])
        return rows
