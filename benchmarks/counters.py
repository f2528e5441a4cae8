"""PostgreSQL's counts of the work of this process: its log (WAL), buffers, updates, commits and CPU time.

The server must have no other clients, because they share its log. The work must use Django's connection.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.db import connection

from . import wire

QUIET = {"full_page_writes": "off", "autovacuum": "off", "checkpoint_timeout": "1d", "max_wal_size": "16GB"}
"""Settings that stop background work of the server, on whose timing counts would depend."""

OLDEST_VERSION = 150_000
RELOAD_SECONDS = 10


def quieten() -> None:
    """Stop background work of the server, so that its counts depend only on its clients.

    Raise RuntimeError for PostgreSQL 14 and earlier, which report counts with an arbitrary delay.
    """
    if int(_value("SELECT current_setting('server_version_num')")) < OLDEST_VERSION:
        raise RuntimeError("Counting needs PostgreSQL 15 or later.")
    for name, value in QUIET.items():
        _execute(f"ALTER SYSTEM SET {name} = '{value}'")
    _execute("SELECT pg_reload_conf()")
    deadline = time.monotonic() + RELOAD_SECONDS
    while _value("SELECT current_setting('full_page_writes')") != "off":
        if time.monotonic() > deadline:
            raise RuntimeError("The server did not reload its settings.")
        time.sleep(0.01)
    _execute("CHECKPOINT")  # by the process that turns full-page writes off
    if _has_wal_records():
        _execute("CREATE EXTENSION IF NOT EXISTS pg_walinspect")


@contextmanager
def counting(counts: Counter[str]) -> Generator[None]:
    """Add the counts of the server and of the connection in this block.

    ``index_entries`` and ``commits`` (those that write) are omitted without the extension pg_walinspect.
    """
    before = _read()
    cpu_before = _cpu_ns()
    with wire.counting(counts):
        yield
    cpu_ns = _cpu_ns() - cpu_before
    after = _read()
    counts.update({name: after[name] - before[name] for name in after})
    counts["cpu_ns"] += cpu_ns
    if _has_wal_records():
        counts.update(_wal_records(before["wal_bytes"], after["wal_bytes"]))


def _read() -> dict[str, int]:
    """Return the server's counters; ``wal_bytes`` is the position in its log."""
    _execute("SELECT pg_stat_force_next_flush()")
    updates, hot_updates = _row("SELECT sum(n_tup_upd), sum(n_tup_hot_upd) FROM pg_stat_user_tables")
    return {
        "wal_bytes": int(_value("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")),
        "buffers": int(_value("SELECT blks_hit + blks_read FROM pg_stat_database WHERE datname = current_database()")),
        "updates": int(updates),
        "hot_updates": int(hot_updates),
    }


def _has_wal_records() -> bool:
    return bool(_value("SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_walinspect'"))


def _wal_records(start: int, end: int) -> dict[str, int]:
    """Return counts of the log's records between two positions. The split of a leaf includes the new entry."""
    _execute("SELECT pg_logical_emit_message(true, 'counts', '')")  # flush the log, which is read from disk
    entries, commits = _row(
        """
        SELECT count(*) FILTER (WHERE resource_manager = 'Btree' AND (
                record_type IN ('INSERT_LEAF', 'INSERT_POST')
                OR (record_type LIKE 'SPLIT%%' AND description ~ '^level:? 0'))),
            count(*) FILTER (WHERE resource_manager = 'Transaction' AND record_type LIKE 'COMMIT%%')
        FROM pg_get_wal_records_info('0/0'::pg_lsn + %s, '0/0'::pg_lsn + %s)
        """,
        [start, end],
    )
    return {"index_entries": int(entries), "commits": int(commits)}


def _cpu_ns() -> int:
    """Return the CPU time of all processes of the server, in nanoseconds."""
    server = _parent(_value("SELECT pg_backend_pid()"))
    processes = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return sum(_cpu_ns_of(pid) for pid in processes if server in (pid, _parent(pid)))


def _cpu_ns_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def _parent(pid: int) -> int | None:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:  # It has ended.
        return None
    return int(status.rpartition(")")[2].split()[1])


def _execute(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


def _row(sql: str, parameters: list[Any] | None = None) -> tuple[Any, ...]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        row: tuple[Any, ...] = cursor.fetchone()
        return row


def _value(sql: str) -> Any:
    return _row(sql)[0]
