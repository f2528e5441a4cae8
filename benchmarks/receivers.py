"""The fast receiver: nginx that answers 200 to everything, and a log with a line for each request."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from string import Template

from tests.servers.process import free_port, listens, program, running, server_directory

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
        listen $address:$port backlog=16384;
        $tls
        access_log $directory/access.log line buffer=32k flush=50ms;
        location / { return 200 "ok"; }
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Receiver:
    """A receiver that is running, and the log that it writes."""

    port: int
    log: Path
    scheme: str = "http"

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def requests(self) -> list[LoggedRequest]:
        """Return what was received so far, in the order of the answers."""
        return [_parsed(line) for line in self.log.read_text().splitlines()]

    def count(self) -> int:
        """Return how many requests were answered so far."""
        return self.log.read_bytes().count(b"\n")

    def forget(self) -> None:
        """Empty the log. Only while nothing is being sent."""
        time.sleep(0.1)
        with self.log.open("r+b") as log:
            log.truncate(0)


def _parsed(line: str) -> LoggedRequest:
    answered_at, seconds, target, *signature = line.split(" ")
    return LoggedRequest(float(answered_at) - float(seconds), float(answered_at), target, "".join(signature))


@contextmanager
def nginx(*, address: str = "127.0.0.1", tls: str = "") -> Generator[Receiver]:
    """Run an nginx that answers 200 as fast as it can; ``tls`` holds its directives for TLS."""
    with server_directory("nginx") as directory:
        directory.chmod(0o711)
        port = free_port()
        configuration = directory / "nginx.conf"
        values = {"directory": str(directory), "address": address, "tls": tls}
        configuration.write_text(NGINX.substitute(values, port=f"{port} ssl" if tls else f"{port}"))
        command: list[str | Path] = [
            program("nginx", "/usr/sbin", package="nginx-light"),
            "-c",
            configuration,
            "-e",
            "stderr",
        ]
        with running(command, directory=directory, ready=lambda: listens(port)):
            yield Receiver(port=port, log=directory / "access.log", scheme="https" if tls else "http")
