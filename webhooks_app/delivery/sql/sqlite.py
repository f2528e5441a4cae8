"""The queue's statements for SQLite, whose driver lets go of the interpreter's lock at every row that it reads.

The thread that sends takes the lock each time, and both wait for each other. So a batch is read as one row of JSON.
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
    """A number that every commit of another connection changes, from memory that the processes share."""

    def fetch_batch(self, sql: str, params: Sequence[Any], *, columns: int) -> Sequence[Sequence[Any]]:
        names = ", ".join(f"value_{number}" for number in range(columns))
        wrapped = f"WITH batch ({names}) AS ({sql}) SELECT json_group_array(json_array({names})) FROM batch"
        rows: list[list[Any]] = json.loads(self.fetch(wrapped, params)[0][0])
        return rows
