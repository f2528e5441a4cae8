"""Receivers: nginx and a slow one, whose logs have a line for each answered request, and one that never finishes."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from string import Template

from tests.support.servers.process import free_port, listens, program, running, server_directory

SLOW_RECEIVER = Path(__file__).with_name("slow_receiver.py")
TROUBLED_RECEIVER = Path(__file__).with_name("troubled_receiver.py")
RETURNING_RECEIVER = Path(__file__).with_name("returning_receiver.py")

NGINX = Template("""
daemon off;
worker_processes 1;
worker_rlimit_nofile 65536;
pid $directory/nginx.pid;
error_log stderr;
events { worker_connections 16384; multi_accept on; }
http {
    client_body_temp_path $directory/body;
    proxy_temp_path $directory/proxy;
    fastcgi_temp_path $directory/fastcgi;
    scgi_temp_path $directory/scgi;
    uwsgi_temp_path $directory/uwsgi;
    log_format line '$$msec $$request_time $$server_addr$$request_uri '
        '$$http_x_webhook_signature$$http_webhook_signature$$http_django_webhook_signature_v1';
    keepalive_requests 100000000;
    server {
$listening
        $tls
        access_log $directory/access.log line buffer=32k flush=50ms;
        location / { return $status "ok"; }
    }
}
""")


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """``at`` is the Unix time of the first byte, to the millisecond; ``target`` the address and the path."""

    at: float
    answered_at: float
    target: str
    signature: str


class Receiver:
    """A running receiver and its log."""

    def __init__(self, port: int, log: Path, *, scheme: str = "http") -> None:
        self.port = port
        self._log = log
        self._scheme = scheme
        self._counted = self._read_to = 0

    @property
    def url(self) -> str:
        return self.url_at("127.0.0.1")

    def url_at(self, host: str) -> str:
        return f"{self._scheme}://{host}:{self.port}"

    def requests(self) -> list[LoggedRequest]:
        """Return the requests so far, in the order of the responses."""
        with self._log.open() as lines:
            return [_parsed(line) for line in lines]

    def count(self) -> int:
        """Return the number of answered requests."""
        with self._log.open("rb") as log:
            log.seek(self._read_to)
            new = log.read()
        self._counted += new.count(b"\n")
        self._read_to += len(new)
        return self._counted


def hosts(count: int) -> list[str]:
    """Return ``count`` loopback addresses, each of which is a separate host to senders."""
    return [f"127.0.{index // 250}.{index % 250 + 1}" for index in range(count)]


def _parsed(line: str) -> LoggedRequest:
    answered_at, seconds, target, signature = line.split()
    # nginx writes a hyphen for a missing header.
    return LoggedRequest(float(answered_at) - float(seconds), float(answered_at), target, signature.strip("-"))


@contextmanager
def nginx(*, addresses: Sequence[str] = ("127.0.0.1",), status: int = 200, tls: str = "") -> Generator[Receiver]:
    """Run an nginx that responds at once; ``tls`` has its directives for TLS."""
    with server_directory("nginx") as directory:
        directory.chmod(0o711)
        port = free_port()
        kind = " ssl" if tls else ""
        listening = "\n".join(f"        listen {address}:{port}{kind} backlog=16384;" for address in addresses)
        configuration = directory / "nginx.conf"
        configuration.write_text(NGINX.substitute(directory=directory, listening=listening, status=status, tls=tls))
        command: list[str | Path] = [
            program("nginx", "/usr/sbin", package="nginx-light"),
            "-c",
            configuration,
            "-e",
            "stderr",
        ]
        with running(command, directory=directory, ready=lambda: listens(port)):
            yield Receiver(port, directory / "access.log", scheme="https" if tls else "http")


@contextmanager
def slow(delay_seconds: float, *, addresses: Sequence[str] = ("127.0.0.1",)) -> Generator[Receiver]:
    """Run a receiver that delays each response, independently of the others."""
    with server_directory("slow") as directory:
        port, log = free_port(), directory / "access.log"
        log.touch()
        command: list[str | Path] = [sys.executable, SLOW_RECEIVER, str(port), str(delay_seconds), log, *addresses]
        with running(command, directory=directory, ready=lambda: listens(port)):
            yield Receiver(port, log)


@contextmanager
def troubled() -> Generator[int]:
    """Run a receiver that never finishes a request; yield its port."""
    with server_directory("troubled") as directory:
        port = free_port()
        command: list[str | Path] = [sys.executable, TROUBLED_RECEIVER, str(port)]
        with running(command, directory=directory, ready=lambda: listens(port)):
            yield port


@dataclass(frozen=True, slots=True)
class ReturningRequest:
    """``at`` is the Unix time of the first byte, and ``number`` the one in the path."""

    at: float
    number: int
    event_id: str
    status: int


class ReturningReceiver:
    """A receiver whose paths answer 503 until a time, see ``returning_receiver.py``."""

    def __init__(self, port: int, log: Path) -> None:
        self._port = port
        self._log = log
        self._read_to = 0

    def url(self, number: int, back_at: float) -> str:
        return f"http://127.0.0.1:{self._port}/{number}/{back_at:.3f}"

    def new_requests(self) -> list[ReturningRequest]:
        """Return the requests since the last call, in order."""
        with self._log.open("rb") as log:
            log.seek(self._read_to)
            lines = log.read().rpartition(b"\n")[0]
        self._read_to += len(lines) + 1 if lines else 0
        found = [line.split() for line in lines.decode().splitlines()]
        return [ReturningRequest(float(at), int(number), event, int(status)) for at, number, event, status in found]


@contextmanager
def returning() -> Generator[ReturningReceiver]:
    """Run a receiver whose paths come back one after the other."""
    with server_directory("returning") as directory:
        port, log = free_port(), directory / "access.log"
        log.touch()
        command: list[str | Path] = [sys.executable, RETURNING_RECEIVER, str(port), log]
        with running(command, directory=directory, ready=lambda: listens(port)):
            yield ReturningReceiver(port, log)


class _Answering(BaseHTTPRequestHandler):
    """Answers each request with 200, and a handshake with its challenge."""

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps({"challenge": message["data"].get("challenge")}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Do nothing."""


@contextmanager
def answering() -> Generator[str]:
    """Run a receiver in this process that also passes the handshake; yield its URL."""
    server = HTTPServer(("127.0.0.1", 0), _Answering)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
