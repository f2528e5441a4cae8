"""nginx as a receiver that answers every request with 200 and logs it."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from string import Template

from .process import free_port, listens, program, server_directory
from .process import running as running_process

# nginx reads the body only of forwarded requests, so the outer server forwards each request to an inner one.
CONFIGURATION = Template("""
daemon off;
worker_processes 1;
pid $directory/nginx.pid;
error_log stderr;
events { worker_connections 8192; }
http {
    access_log off;
    client_body_temp_path $directory/body;
    proxy_temp_path $directory/proxy;
    fastcgi_temp_path $directory/fastcgi;
    scgi_temp_path $directory/scgi;
    uwsgi_temp_path $directory/uwsgi;
    log_format received escape=json '{"at": $$msec, "method": "$$request_method", "path": "$$request_uri", '
        '"event": "$$http_x_webhook_event", "timestamp": "$$http_x_webhook_timestamp", '
        '"signature": "$$http_x_webhook_signature", "body": "$$request_body"}';
    upstream answer { server unix:$directory/answer.sock; keepalive 64; }
    server {
        listen unix:$directory/answer.sock;
        location / { return 200 "ok"; }
    }
    server {
        listen 127.0.0.1:$port backlog=4096;
        client_body_buffer_size 512k;
        client_body_in_single_buffer on;
        client_max_body_size 1m;
        access_log $directory/access.log received;
        location / {
            proxy_pass http://answer;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
        }
    }
}
""")


@dataclass(frozen=True, kw_only=True, slots=True)
class ReceivedRequest:
    """One logged request. ``at`` is the Unix time of the response, in seconds."""

    at: float
    method: str
    path: str
    event: str
    timestamp: str
    signature: str
    body: str


@dataclass(frozen=True, slots=True)
class NginxReceiver:
    """A running nginx, with its address and its requests."""

    url: str
    log: Path

    def received(self, path: str = "") -> list[ReceivedRequest]:
        """Return the requests in the order of their responses, optionally of one path only."""
        requests = [ReceivedRequest(**json.loads(line)) for line in self.log.read_text().splitlines()]
        return [request for request in requests if path in ("", request.path)]


@contextmanager
def running() -> Generator[NginxReceiver]:
    """Yield a new nginx that answers with 200."""
    server = program("nginx", "/usr/sbin", package="nginx-light")
    with server_directory("nginx") as directory:
        port = free_port()
        configuration = directory / "nginx.conf"
        configuration.write_text(CONFIGURATION.substitute(directory=directory, port=port))
        directory.chmod(0o711)
        command = [server, "-p", directory, "-c", configuration, "-e", "stderr"]
        with running_process(command, directory=directory, ready=lambda: listens(port)):
            yield NginxReceiver(f"http://127.0.0.1:{port}", directory / "access.log")
