"""The database and the broker of a measurement, and environment variables with their addresses."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import urlsplit

import pymysql

from tests.support.servers import mariadb, postgresql, rabbitmq, redis


@contextmanager
def running(database: str, broker: str, transport: str, settings: Mapping[str, Any]) -> Generator[dict[str, str]]:
    """Start a database and a broker; yield their environment variables for ``benchmarks.settings``."""
    with ExitStack() as stack:
        yield {
            "DJANGO_SETTINGS_MODULE": "benchmarks.settings",
            "BENCHMARK_DATABASE_URL": stack.enter_context(DATABASES[database]()),
            "BENCHMARK_TRANSPORT": transport,
            "BENCHMARK_SETTINGS": json.dumps(dict(settings)),
            **stack.enter_context(BROKERS[broker]()),
        }


@contextmanager
def _durable_postgresql() -> Generator[str]:
    settings = dict(postgresql.ADDRESS)  # with its default durability
    if next(postgresql.programs().parent.rglob("pg_stat_statements.so"), None):
        settings["shared_preload_libraries"] = "pg_stat_statements"
    with postgresql.running(settings) as url:
        yield url


@contextmanager
def _sqlite() -> Generator[str]:
    with tempfile.TemporaryDirectory(prefix="wh-sqlite-") as directory:
        yield f"sqlite:///{directory}/benchmark.sqlite3"


@contextmanager
def _mariadb() -> Generator[str]:
    with mariadb.running() as url:
        address = urlsplit(url)
        with pymysql.connect(host=address.hostname, port=address.port or 0, user=address.username) as connection:
            connection.cursor().execute(f"CREATE DATABASE {address.path[1:]} CHARACTER SET utf8mb4")
        yield url


@contextmanager
def _redis() -> Generator[dict[str, str]]:
    with redis.running() as url:
        yield {"BENCHMARK_BROKER_URL": url}


@contextmanager
def _rabbitmq() -> Generator[dict[str, str]]:
    with rabbitmq.running() as url:
        yield {"BENCHMARK_BROKER_URL": url}


@contextmanager
def _folder() -> Generator[dict[str, str]]:
    """Create the folder for the broker of the example project."""
    with tempfile.TemporaryDirectory(prefix="wh-broker-") as directory:
        yield {"BENCHMARK_BROKER_URL": "filesystem://localhost", "BENCHMARK_BROKER_FOLDER": directory}


@contextmanager
def _no_broker() -> Generator[dict[str, str]]:
    yield {"BENCHMARK_BROKER_URL": ""}


DATABASES = {"postgresql": _durable_postgresql, "mariadb": _mariadb, "sqlite": _sqlite}
BROKERS = {"redis": _redis, "rabbitmq": _rabbitmq, "folder": _folder, "none": _no_broker}
