"""Databases and brokers that can be killed, frozen, emptied and restarted on the same port with the same data."""

from __future__ import annotations

import abc
import os
import shutil
import signal
import sqlite3
import subprocess
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import ClassVar

import amqp
import psycopg
import pymysql
from redis import Redis

from ..support.servers import mariadb, postgresql, rabbitmq
from ..support.servers.process import account, free_port, listens, program, running, server_directory, unprivileged_user


class Restartable:
    """A server process whose port and data remain the same while it is stopped, frozen and started."""

    def __init__(self, start: Callable[[], AbstractContextManager[subprocess.Popen[bytes]]]) -> None:
        self._start = start
        self._stack = ExitStack()
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.process = self._stack.enter_context(self._start())

    def send(self, number: int) -> None:
        """Send a signal to the server and all of its processes."""
        assert self.process
        os.killpg(self.process.pid, number)

    def stop(self, number: int = signal.SIGKILL) -> None:
        assert self.process
        self.process.send_signal(number) if number != signal.SIGKILL else self.send(number)
        self.process.wait(30)
        self._stack.close()

    @contextmanager
    def away(self) -> Iterator[None]:
        """Stop the server for the duration of the block."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Accept connections without answering for the duration of the block."""
        self.send(signal.SIGSTOP)
        try:
            yield
        finally:
            self.send(signal.SIGCONT)

    def close(self) -> None:
        with suppress(ProcessLookupError):
            self.send(signal.SIGCONT)
        self._stack.close()


class BaseDatabase(abc.ABC):
    """A source of separate databases for each test, copied from one that was migrated once."""

    vendor: str

    @abc.abstractmethod
    def new(self) -> str:
        """Return the URL of a new database, a copy of the template if there is one."""

    @abc.abstractmethod
    def keep_as_template(self, url: str) -> None:
        """Use this database as the template for later ones."""

    @abc.abstractmethod
    def writes_held(self, url: str) -> AbstractContextManager[None]:
        """Prevent writes of deliveries for the duration of the block. Statements that wait until its end fail."""

    @abc.abstractmethod
    def close(self) -> None:
        """End the server and delete its data."""


class SqliteDatabase(BaseDatabase):
    vendor = "sqlite"

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._directory = self._stack.enter_context(server_directory("faults"))
        self._template: Path | None = None

    def new(self) -> str:
        path = self._directory / f"{uuid.uuid4().hex}.sqlite3"
        if self._template is not None:
            shutil.copy(self._template, path)
        return f"sqlite:///{path}"

    def keep_as_template(self, url: str) -> None:
        self._template = Path(url.removeprefix("sqlite:///"))
        with sqlite3.connect(self._template) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()

    @contextmanager
    def writes_held(self, url: str) -> Iterator[None]:
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None, timeout=20)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield

    def close(self) -> None:
        self._stack.close()


class PostgresqlDatabase(BaseDatabase, Restartable):
    vendor = "postgresql"

    # The same options as in other tests, except that a crash of the server loses no data.
    SETTINGS: ClassVar = {
        **postgresql.SETTINGS,
        "synchronous_commit": "on",
        "wal_level": "minimal",
        "max_wal_senders": "0",
    }

    def __init__(self) -> None:
        user = unprivileged_user()
        self._directories = ExitStack()
        self.directory = self._directories.enter_context(server_directory("faults-pg", user=user))
        binaries = postgresql._usable(postgresql.programs(), self.directory, user)
        postgresql._make_cluster(binaries / "initdb", self.directory / "data", user)
        self._address = f"postgresql://webhooks@127.0.0.1:{free_port()}"
        self._template = "template1"
        port = self._address.rpartition(":")[2]
        options = [f"-c{name}={value}" for name, value in self.SETTINGS.items()]
        command = [binaries / "postgres", "-D", self.directory / "data", "-p", port, *options]
        url = f"{self._address}/postgres"
        ready = lambda: postgresql._answers(url)  # noqa: E731
        super().__init__(lambda: running(command, directory=self.directory, ready=ready, user=user))
        self.start()

    def new(self, *, tablespace: Path | None = None) -> str:
        name = f"faults_{uuid.uuid4().hex}"
        place = ""
        if tablespace is not None:
            self.execute(f"CREATE TABLESPACE {name} LOCATION '{tablespace}'")
            place = f"TABLESPACE {name}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {self._template} {place}")
        return f"{self._address}/{name}"

    def keep_as_template(self, url: str) -> None:
        self._template = url.rpartition("/")[2]

    def drop(self, url: str) -> None:
        """Delete a database, and the tablespace created for it."""
        name = url.rpartition("/")[2]
        self.execute(f"DROP DATABASE {name} WITH (FORCE)")
        self.execute(f"DROP TABLESPACE IF EXISTS {name}")

    def execute(self, statement: str, *parameters: object) -> Sequence[tuple[object, ...]]:
        with psycopg.connect(f"{self._address}/postgres", autocommit=True, connect_timeout=5) as connection:
            cursor = connection.execute(statement, parameters or None)
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def writes_held(self, url: str) -> Iterator[None]:
        with psycopg.connect(url) as connection:
            connection.execute("LOCK TABLE webhooks_app_delivery IN EXCLUSIVE MODE")
            yield
            self.terminate_connections(other_than=connection.info.backend_pid)

    def crash(self) -> None:
        """Do the same as ``pg_ctl -m immediate restart``."""
        self.stop(signal.SIGQUIT)
        self.start()

    def terminate_connections(self, *, other_than: int = 0) -> int:
        """End every connection to our databases except one. Return their number."""
        ended = self.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname LIKE 'faults%%' AND pid <> %s",
            other_than,
        )
        return len(ended)

    def chown(self, path: Path) -> None:
        if user := unprivileged_user():
            shutil.chown(path, user, account(user)["group"])

    def close(self) -> None:
        Restartable.close(self)
        self._directories.close()


class MariadbDatabase(BaseDatabase, Restartable):
    vendor = "mysql"

    # As in other tests, except that a killed server loses no committed transaction.
    OPTIONS = ("--innodb-flush-log-at-trx-commit=2", "--innodb-doublewrite=1")

    def __init__(self) -> None:
        self._directories = ExitStack()
        directory = self._directories.enter_context(server_directory("faults-maria"))
        self._port = free_port()
        self._template = ""
        command = mariadb.installed(directory, self._port, *self.OPTIONS)
        ready = lambda: mariadb.answers(self._port)  # noqa: E731
        super().__init__(lambda: running(command, directory=directory, ready=ready))
        self.start()

    def new(self) -> str:
        name = f"faults_{uuid.uuid4().hex}"
        self.execute(f"CREATE DATABASE {name}")
        if self._template:
            self._copy(self._template, name)
        return f"mysql://root@127.0.0.1:{self._port}/{name}"

    def keep_as_template(self, url: str) -> None:
        self._template = url.rpartition("/")[2]

    def _copy(self, source: str, target: str) -> None:
        tables = [row[0] for row in self.execute(f"SHOW TABLES FROM {source}")]
        definitions = [str(self.execute(f"SHOW CREATE TABLE {source}.{table}")[0][1]) for table in tables]
        copies = [f"INSERT INTO {table} SELECT * FROM {source}.{table}" for table in tables]
        self.execute(f"USE {target}", "SET foreign_key_checks = 0", *definitions, *copies)

    def execute(self, *statements: str) -> Sequence[tuple[object, ...]]:
        """Return the rows of the last statement."""
        with self._connection() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return cursor.fetchall()

    def _connection(self) -> pymysql.Connection:
        return pymysql.connect(host="127.0.0.1", port=self._port, user="root", autocommit=True, connect_timeout=5)

    @contextmanager
    def writes_held(self, url: str) -> Iterator[None]:
        with self._connection() as connection, connection.cursor() as cursor:
            cursor.execute(f"LOCK TABLES {url.rpartition('/')[2]}.webhooks_app_delivery READ")
            yield
            self.terminate_connections(other_than=connection.thread_id())

    def crash(self) -> None:
        self.stop()
        self.start()

    def terminate_connections(self, *, other_than: int = 0) -> int:
        """End every connection to our databases except one. Return their number."""
        listed = self.execute("SELECT id FROM information_schema.processlist WHERE db LIKE 'faults%'")
        numbers = [number for (number,) in listed if number != other_than]
        for number in numbers:
            with suppress(pymysql.OperationalError):  # It has already ended.
                self.execute(f"KILL {number}")
        return len(numbers)

    def deadlocks(self) -> int:
        """Return how many transactions the server has ended because of a deadlock."""
        return int(str(self.execute("SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'")[0][1]))

    def close(self) -> None:
        Restartable.close(self)
        self._directories.close()


class BaseBroker(abc.ABC):
    url: str

    @abc.abstractmethod
    def empty(self) -> None:
        """Lose every message."""

    @abc.abstractmethod
    def close(self) -> None:
        """End the server and delete its data."""


class FolderBroker(BaseBroker):
    """The folder broker of the example project."""

    url = "filesystem://localhost"

    def __init__(self) -> None:
        self._stack = ExitStack()
        self.directory = self._stack.enter_context(server_directory("faults-broker"))

    def empty(self) -> None:
        for message in self.directory.glob("messages/*"):
            message.unlink(missing_ok=True)

    def close(self) -> None:
        self._stack.close()


class RedisBroker(BaseBroker, Restartable):
    def __init__(self) -> None:
        server = program("redis-server", package="redis-server")
        self._directories = ExitStack()
        directory = self._directories.enter_context(server_directory("faults-redis"))
        port = free_port()
        self.url = f"redis://127.0.0.1:{port}/0"
        command = [server, "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--appendonly", "no"]
        super().__init__(lambda: running(command, directory=directory, ready=lambda: listens(port)))
        self.start()

    def empty(self) -> None:
        with Redis.from_url(self.url) as client:
            client.flushall()

    def close(self) -> None:
        Restartable.close(self)
        self._directories.close()


class RabbitmqBroker(BaseBroker, Restartable):
    def __init__(self) -> None:
        server = Path(rabbitmq.PROGRAMS, program("rabbitmq-server", package="rabbitmq-server").name)
        names = program("epmd", package="rabbitmq-server")
        self._directories = ExitStack()
        self._directory = self._directories.enter_context(server_directory("faults-rabbit"))
        self._port, names_port = free_port(), free_port()
        self.url = f"amqp://guest:guest@127.0.0.1:{self._port}//"
        environment = rabbitmq._environment(self._directory, self._port, names_port)
        command = [names, "-address", "127.0.0.1", "-port", str(names_port)]
        self._directories.enter_context(running(command, directory=self._directory, ready=lambda: listens(names_port)))
        ready = lambda: rabbitmq._answers(self._port)  # noqa: E731
        super().__init__(lambda: running([server], directory=self._directory, ready=ready, env=environment))
        self.start()

    def empty(self) -> None:
        """Purge the queue of tasks, if a worker has created it."""
        with amqp.Connection(f"127.0.0.1:{self._port}") as connection, suppress(amqp.exceptions.NotFound):
            connection.channel().queue_purge("celery")

    def close(self) -> None:
        Restartable.close(self)
        self._directories.close()


DATABASES = {"postgresql": PostgresqlDatabase, "mariadb": MariadbDatabase, "sqlite": SqliteDatabase}
BROKERS = {"embedded": FolderBroker, "redis": RedisBroker, "rabbitmq": RabbitmqBroker}
