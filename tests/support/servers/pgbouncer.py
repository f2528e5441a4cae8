"""pgbouncer, from Debian: a pooler in transaction mode for PostgreSQL."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from string import Template
from urllib.parse import urlsplit

import psycopg

from .process import free_port, listens, program, server_directory, unprivileged_user
from .process import running as running_process

POOL_SIZE = 1
"""All clients share one session, so that each finds the state left by another."""

CONFIGURATION = Template("""
[databases]
* = host=$host port=$server_port user=$user
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $port
unix_socket_dir =
auth_type = any
admin_users = $user
pool_mode = transaction
default_pool_size = $pool_size
max_client_conn = 200
""")


@dataclass(frozen=True, kw_only=True, slots=True)
class Pool:
    """A running pgbouncer. ``url`` contains no database name."""

    url: str

    def connections(self, database: str) -> tuple[int, int]:
        """Return the numbers of clients and of server connections of a database."""
        with psycopg.connect(f"{self.url}/pgbouncer", autocommit=True, prepare_threshold=None) as console:
            clients = self._count(console, "CLIENTS", database)
            return clients, self._count(console, "SERVERS", database)

    @staticmethod
    def _count(console: psycopg.Connection, what: str, database: str) -> int:
        # The console supports only the simple protocol, which client-side cursors use.
        with psycopg.ClientCursor(console) as cursor:
            cursor.execute(f"SHOW {what}")
            columns = [column.name for column in cursor.description or ()]
            return sum(1 for row in cursor if dict(zip(columns, row, strict=True))["database"] == database)


@contextmanager
def running(database_url: str) -> Generator[Pool]:
    """Yield a new pgbouncer for the server of ``database_url``. It forwards to all of its databases."""
    server = program("pgbouncer", "/usr/sbin", package="pgbouncer")
    backend = urlsplit(database_url)
    user = unprivileged_user()
    with server_directory("pgbouncer", user=user) as directory:
        port = free_port()
        configuration = directory / "pgbouncer.ini"
        configuration.write_text(
            CONFIGURATION.substitute(
                host=backend.hostname, server_port=backend.port, user=backend.username, port=port, pool_size=POOL_SIZE
            )
        )
        with running_process([server, configuration], directory=directory, ready=lambda: listens(port), user=user):
            yield Pool(url=f"postgresql://{backend.username}@127.0.0.1:{port}")
