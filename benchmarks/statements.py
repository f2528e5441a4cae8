"""Counts of the SQL statements of other connections, from pg_stat_statements."""

from __future__ import annotations

from django.db import connection

from webhooks_app.database.dialects import dialect_for


def is_counting() -> bool:
    """Return True on PostgreSQL with pg_stat_statements."""
    if dialect_for(connection).name != "postgresql":
        return False
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('shared_preload_libraries') LIKE '%pg_stat_statements%'")
        return bool(cursor.fetchone()[0])


def start_counting() -> None:
    """Reset the counts. Statements of this connection are not counted; BEGIN and COMMIT of others are."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        cursor.execute("SET pg_stat_statements.track = 'none'")
        cursor.execute("SELECT pg_stat_statements_reset()")


def counted() -> int:
    """Return the number of statements of clients since the reset."""
    return _sum_of_calls(f"NOT {_FOREIGN_KEY_CHECK}")


def counted_by_server() -> int | None:
    """Return the number of statements that the server has counted so far; None if it counts none, as on SQLite."""
    if is_counting():
        return counted()
    if dialect_for(connection).name != "mysql":
        return None
    with connection.cursor() as cursor:
        cursor.execute("SHOW GLOBAL STATUS LIKE 'Questions'")
        return int(cursor.fetchone()[1])


def counted_foreign_key_checks() -> int:
    """Return the number of PostgreSQL's own foreign-key checks since the reset, at the end of transactions."""
    return _sum_of_calls(_FOREIGN_KEY_CHECK)


def total_ms() -> float:
    """Return the execution time of these statements on the server."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT coalesce(sum(total_exec_time), 0) FROM pg_stat_statements")
        return float(cursor.fetchone()[0])


def most_called(limit: int = 12) -> list[tuple[int, str]]:
    """Return the most frequent statements with their counts."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT calls, query FROM pg_stat_statements ORDER BY calls DESC LIMIT %s", [limit])
        return [(int(calls), " ".join(query.split())) for calls, query in cursor.fetchall()]


# The server checks deferred constraints by statements, which the extension counts like those of clients.
_FOREIGN_KEY_CHECK = "(query LIKE 'SELECT 1 FROM ONLY%' AND query LIKE '%FOR KEY SHARE OF x')"


def _sum_of_calls(condition: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT coalesce(sum(calls), 0) FROM pg_stat_statements WHERE {condition}")
        return int(cursor.fetchone()[0])
