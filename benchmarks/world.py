"""The servers, the receiver and the workers of one measurement."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from string import Template

from tests.servers import mariadb, postgresql, rabbitmq, redis
from tests.servers.process import free_port, listens, program, running, server_directory

NGINX = Template("""
daemon off;
worker_processes 1;
pid $directory/nginx.pid;
error_log stderr;
events { worker_connections 8192; }
http {
    client_body_temp_path $directory/body;
    proxy_temp_path $directory/proxy;
    fastcgi_temp_path $directory/fastcgi;
    scgi_temp_path $directory/scgi;
    uwsgi_temp_path $directory/uwsgi;
    log_format line '$$msec $$http_x_webhook_event $$request_uri $$http_x_webhook_signature';
    keepalive_requests 1000000;
    server {
        listen 127.0.0.1:$port backlog=4096;
        access_log $directory/access.log line;
        location / { return 200 "ok"; }
    }
}
""")


@dataclass(frozen=True, kw_only=True, slots=True)
class Receiver:
    """An nginx that answers 200; its log has a line for each request."""

    url: str
    log: Path

    def requests(self) -> list[list[str]]:
        """Return time, event type, path and signature of every request so far."""
        return [line.split() for line in self.log.read_text().splitlines()]


@contextmanager
def receiver() -> Generator[Receiver]:
    with server_directory("nginx") as directory:
        directory.chmod(0o711)
        port = free_port()
        configuration = directory / "nginx.conf"
        configuration.write_text(NGINX.substitute(directory=directory, port=port))
        command = [program("nginx", "/usr/sbin", package="nginx-light"), "-c", configuration, "-e", "stderr"]
        with running(command, directory=directory, ready=lambda: listens(port)):
            yield Receiver(url=f"http://127.0.0.1:{port}", log=directory / "access.log")


@contextmanager
def servers(database: str, broker: str, transport: str) -> Generator[None]:
    """Start a database and a broker, and point this process and its children at them."""
    databases = {"postgresql": _durable_postgresql, "mariadb": mariadb.running, "sqlite": _sqlite}
    brokers = {"redis": redis.running, "rabbitmq": rabbitmq.running}
    with ExitStack() as stack:
        os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.settings"
        os.environ["BENCHMARK_DATABASE_URL"] = stack.enter_context(databases[database]())
        os.environ["BENCHMARK_BROKER_URL"] = stack.enter_context(brokers[broker]())
        os.environ["BENCHMARK_TRANSPORT"] = transport
        yield


@contextmanager
def workers(count: int, log: Path) -> Generator[None]:
    """Run ``celery worker --beat`` with so many processes, from ready until the block is left."""
    command = [sys.executable, "-m", "celery", "-A", "benchmarks", "worker", "--beat", "--loglevel", "INFO"]
    with tempfile.TemporaryDirectory() as directory, log.open("wb") as output:
        schedule = ["--schedule", str(Path(directory, "beat"))]
        process = subprocess.Popen([*command, "--concurrency", str(count), *schedule], stdout=output, stderr=output)
        try:
            _wait_for_line(log, " ready.")
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def _wait_for_line(log: Path, text: str) -> None:
    deadline = time.monotonic() + 60
    while text not in log.read_text():
        if time.monotonic() > deadline:
            raise RuntimeError(f"The worker did not start:\n{log.read_text()[-2000:]}")
        time.sleep(0.05)


@contextmanager
def _durable_postgresql() -> Generator[str]:
    """Start PostgreSQL with its default durability, which the tests turn off."""
    before = dict(postgresql.SETTINGS)
    for name in ("fsync", "synchronous_commit", "full_page_writes"):
        postgresql.SETTINGS.pop(name)
    try:
        with postgresql.running() as url:
            yield url
    finally:
        postgresql.SETTINGS.update(before)


@contextmanager
def _sqlite() -> Generator[str]:
    with tempfile.TemporaryDirectory() as directory:
        yield f"sqlite:///{directory}/benchmark.sqlite3"
