"""The clients of other servers' APIs, in the benchmarks."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from benchmarks.rivals.apis import BaseApi, OutpostApi, SvixApi
from benchmarks.rows import DATA, EVENT_TYPE

Requests = list[tuple[str, str, str, Any]]
URLS = [["http://127.0.0.1:9/0", "http://127.0.0.1:9/1"]]


class Recording(HTTPServer):
    """A server that keeps each request, and answers with an identifier."""

    requests: Requests


class _Handler(BaseHTTPRequestHandler):
    server: Recording

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "null")
        self.server.requests.append((self.command, self.path, self.headers["Authorization"], body))
        answer = b'{"id": "app_1"}'
        self.send_response(404 if self.path.endswith("/gone/msg/") else 200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def do_PUT(self) -> None:
        self.do_POST()

    def log_message(self, *arguments: object) -> None:
        """Do nothing."""


@pytest.fixture
def server() -> Iterator[Recording]:
    server = Recording(("127.0.0.1", 0), _Handler)
    server.requests = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def _sent(api: BaseApi, server: Recording) -> Requests:
    (account,) = api.add_accounts(URLS)
    api.send_event(account)
    return server.requests


def test_svix_gets_an_application_its_endpoints_and_a_message(server: Recording) -> None:
    found = _sent(SvixApi(f"http://127.0.0.1:{server.server_port}", "key"), server)

    assert [(method, path, body) for method, path, _, body in found] == [
        ("POST", "/api/v1/app/", {"name": "benchmark"}),
        ("POST", "/api/v1/app/app_1/endpoint/", {"url": URLS[0][0]}),
        ("POST", "/api/v1/app/app_1/endpoint/", {"url": URLS[0][1]}),
        ("POST", "/api/v1/app/app_1/msg/", {"eventType": EVENT_TYPE, "payload": DATA}),
    ]
    assert {key for _, _, key, _ in found} == {"Bearer key"}


def test_outpost_gets_a_tenant_its_destinations_and_an_event(server: Recording) -> None:
    found = _sent(OutpostApi(f"http://127.0.0.1:{server.server_port}", "key"), server)

    tenant = found[0][1].rpartition("/")[2]
    destinations = [{"type": "webhook", "topics": ["*"], "config": {"url": url}} for url in URLS[0]]
    assert [(method, path, body) for method, path, _, body in found] == [
        ("PUT", f"/api/v1/tenants/{tenant}", None),
        *(("POST", f"/api/v1/tenants/{tenant}/destinations", each) for each in destinations),
        ("POST", "/api/v1/publish", {"tenant_id": tenant, "topic": EVENT_TYPE, "data": DATA}),
    ]


def test_an_error_of_a_server_ends_the_run(server: Recording) -> None:
    api = SvixApi(f"http://127.0.0.1:{server.server_port}", "key")

    with pytest.raises(RuntimeError, match="POST /api/v1/app/gone/msg/: 404"):
        api.send_event("gone")
