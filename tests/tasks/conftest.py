"""Celery workers, started as by a user, with the database of the test and a separate broker."""

from __future__ import annotations

import http.server
import os
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from webhooks_app.models import Delivery
from webhooks_app.wake import waking_workers

from ..support.forked import Forked
from ..support.waiting import wait_until

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _real_wake_ups() -> Iterator[None]:
    with waking_workers():
        yield


@pytest.fixture(
    params=[
        pytest.param("embedded", marks=pytest.mark.only_on("sqlite")),
        pytest.param("redis", marks=pytest.mark.only_on("postgresql", "mariadb")),
        pytest.param("rabbitmq", marks=[pytest.mark.only_on("postgresql"), pytest.mark.xdist_group("rabbitmq")]),
    ]
)
def broker_url(request: pytest.FixtureRequest) -> str:
    """The URL of each kind of broker. Each broker and each database must work, not every combination."""
    if request.param == "embedded":
        return "filesystem://localhost"
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@dataclass
class SlowReceiver:
    """A receiver that answers with 200 after a delay, and counts all requests and the concurrent ones."""

    delay_seconds: float
    hits: list[float] = field(default_factory=list)
    at_a_time: int = 0
    most_at_a_time: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    url: str = ""

    @contextmanager
    def running(self) -> Iterator[SlowReceiver]:
        receiver = self

        class Server(http.server.ThreadingHTTPServer):
            request_queue_size = 128

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                receiver.hits.append(time.time())
                with receiver.lock:
                    receiver.at_a_time += 1
                    receiver.most_at_a_time = max(receiver.most_at_a_time, receiver.at_a_time)
                time.sleep(receiver.delay_seconds)
                with receiver.lock:
                    receiver.at_a_time -= 1
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *arguments: Any) -> None:
                """Log nothing."""

        server = Server(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        self.url = f"http://127.0.0.1:{server.server_port}/slow"
        try:
            yield self
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


def environment(broker_url: str, directory: Path) -> dict[str, str]:
    """Return the environment of a process that uses the test's database."""
    database = connection.settings_dict
    if connection.vendor == "sqlite":
        database_url = f"sqlite:///{database['NAME']}"
    else:
        user = f"{database['USER']}:{database['PASSWORD']}".rstrip(":")
        database_url = f"{connection.vendor}://{user}@{database['HOST']}:{database['PORT']}/{database['NAME']}"
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "TEST_DATABASE_URL": database_url,
        "CELERY_BROKER_URL": broker_url,
        "TEST_BROKER_DIRECTORY": str(directory / "broker"),
    }


@pytest.fixture
def start_worker(tmp_path: Path) -> Iterator[Callable[..., Forked]]:
    """Start ``celery worker``. All are stopped at the end. Keyword arguments become environment variables."""
    with _celery_processes(tmp_path) as start:

        def start_worker(broker_url: str, *options: str, **variables: str) -> Forked:
            name = f"w{uuid.uuid4().hex[:8]}@%h"
            command = ("worker", "--concurrency", "2", "-n", name, *options)
            return start(broker_url, *command, until=" ready.", **variables)

        yield start_worker


@pytest.fixture
def start_beat(tmp_path: Path) -> Iterator[Callable[[str], Forked]]:
    """Start ``celery beat``. All are stopped at the end."""
    with _celery_processes(tmp_path) as start:

        def start_beat(broker_url: str) -> Forked:
            schedule = str(tmp_path / f"schedule-{uuid.uuid4().hex}")
            return start(broker_url, "beat", "--pidfile=", "--schedule", schedule, until="beat: Starting")

        yield start_beat


@contextmanager
def _celery_processes(directory: Path) -> Iterator[Callable[..., Forked]]:
    started: list[Forked] = []

    def start(broker_url: str, *arguments: str, until: str, **variables: str) -> Forked:
        log = directory / f"{arguments[0]}-{len(started)}.log"
        process = Forked(
            ["celery", "-A", "tests.support.celery", *arguments, "--loglevel", "INFO"],
            directory=ROOT,
            log=log,
            env=environment(broker_url, directory) | variables,
        )
        started.append(process)
        wait_until(lambda: until in log.read_text(), lambda: log.read_text()[-3000:])
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
    for process in started:
        process.wait(60)


def all_final() -> bool:
    return not Delivery.objects.pending().exists()
