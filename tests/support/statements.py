"""The statements that code executes."""

from __future__ import annotations

from collections.abc import Callable

from django.db import connection
from django.test.utils import CaptureQueriesContext

ONCE_PER_SESSION = ("PREPARE ", "SELECT pg_backend_pid()")


def statements_of(act: Callable[[], object]) -> list[str]:
    """Return the SQL of each statement, except those that a session executes once, after any number of others."""
    with CaptureQueriesContext(connection) as queries:
        act()
    return [query["sql"] for query in queries if not query["sql"].startswith(ONCE_PER_SESSION)]
