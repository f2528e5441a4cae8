"""Counting the SQL statements that others execute, by PostgreSQL's own count."""

from __future__ import annotations

from django.db import connection

from webhooks_app.database.dialects import dialect_for


def is_counting() -> bool:
    """Tell whether statements can be counted here: on a PostgreSQL that brings pg_stat_statements."""
    if dialect_for(connection).name != "postgresql":
        return False
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('shared_preload_libraries') LIKE '%pg_stat_statements%'")
        return bool(cursor.fetchone()[0])


def start_counting() -> None:
    """Count from nought what every connection but this one executes: BEGIN and COMMIT too."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        cursor.execute("SET pg_stat_statements.track = 'none'")
        cursor.execute("SELECT pg_stat_statements_reset()")


def counted() -> int:
    """Return how many statements clients have executed since."""
    return _sum_of_calls(f"NOT {_FOREIGN_KEY_CHECK}")


def counted_foreign_key_checks() -> int:
    """Return how many foreign keys PostgreSQL itself has looked up since, at the end of transactions."""
    return _sum_of_calls(_FOREIGN_KEY_CHECK)


def total_ms() -> float:
    """Return for how long the server has executed them."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT coalesce(sum(total_exec_time), 0) FROM pg_stat_statements")
        return float(cursor.fetchone()[0])


def most_called(limit: int = 12) -> list[tuple[int, str]]:
    """Return the statements that were executed most often, each with its count."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT calls, query FROM pg_stat_statements ORDER BY calls DESC LIMIT %s", [limit])
        return [(int(calls), " ".join(query.split())) for calls, query in cursor.fetchall()]


# Deferred constraints are checked by statements of the server's own, which the extension takes for anybody's.
_FOREIGN_KEY_CHECK = "(query LIKE 'SELECT 1 FROM ONLY%' AND query LIKE '%FOR KEY SHARE OF x')"


def _sum_of_calls(condition: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT coalesce(sum(calls), 0) FROM pg_stat_statements WHERE {condition}")
        return int(cursor.fetchone()[0])
