"""Bodies with broken framing, sent to common servers."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
from django.db import connection

from webhooks_app.models import ApiKey

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.only_on("sqlite"), pytest.mark.timeout(240)]

SERVERS = {
    "gunicorn": ["gunicorn", "--bind=127.0.0.1:{port}", "--log-level=warning", "tests.api.served:wsgi"],
    "uvicorn": ["uvicorn", "--port={port}", "--log-level=warning", "--lifespan=off", "tests.api.served:asgi"],
    "waitress": ["waitress", "--listen=127.0.0.1:{port}", "tests.api.served:wsgi"],
}
CHUNKED = "Transfer-Encoding: chunked\r\n"
BODIES = {
    "no-size": b"zz\r\n{}\r\n0\r\n\r\n",
    "empty-size": b"\r\n{}\r\n0\r\n\r\n",
    "negative-size": b"-2\r\n{}\r\n0\r\n\r\n",
    "prefixed-size": b"0x2\r\n{}\r\n0\r\n\r\n",
    "underscore-in-size": b"0_2\r\n{}\r\n0\r\n\r\n",
    "no-line-break-after-data": b"2\r\n{}0\r\n\r\n",
    "too-long": b"2\r\n{}{}\r\n0\r\n\r\n",
    "ends-in-a-chunk": b"ff\r\n{}",
    "ends-in-a-size": b"2",
    "ends-before-the-last-chunk": b"2\r\n{}\r\n",
    "broken-trailer": b"2\r\n{}\r\n0\r\nno colon\r\n\r\n",
    "control-characters-in-a-trailer": b"2\r\n{}\r\n0\r\nX\0: \x1b\x7f\r\n\r\n",
    "ends-in-a-trailer": b"2\r\n{}\r\n0\r\nX-Trai",
    "control-characters-in-an-extension": b"2;\0\x1b\x7f\r\n{}\r\n0\r\n\r\n",
    "carriage-return-in-an-extension": b"2;a\rb\r\n{}\r\n0\r\n\r\n",
    "long-extension": b"2;" + b"a" * 100_000 + b"\r\n{}\r\n0\r\n\r\n",
    "huge-size": b"f" * 32 + b"\r\n{}",
    "size-of-64-bits": b"8000000000000000\r\n{}",
    "thousands-of-digits": b"0" * 5000 + b"2\r\n{}\r\n0\r\n\r\n",
    "size-not-ascii": "\uff12\r\n{}\r\n0\r\n\r\n".encode(),
    "sign-in-size": b"+2\r\n{}\r\n0\r\n\r\n",
    "space-before-size": b" 2\r\n{}\r\n0\r\n\r\n",
    "line-feeds-only": b"2\n{}\n0\n\n",
    "nothing": b"",
}
"""Bodies with ``Transfer-Encoding: chunked``."""

FRAMINGS = {
    "length-and-chunks": (CHUNKED + "Content-Length: 2\r\n", b"2\r\n{}\r\n0\r\n\r\n"),
    "length-and-broken-chunks": (CHUNKED + "Content-Length: 7\r\n", b"zz\r\n{}\r\n"),
    "shorter-than-its-length": ("Content-Length: 100\r\n", b"{}"),
    "without-a-body": ("Content-Length: 100\r\n", b""),
    "longer-than-its-length": ("Content-Length: 1\r\n", b"{}"),
    "negative-length": ("Content-Length: -1\r\n", b"{}"),
    "no-number": ("Content-Length: abc\r\n", b"{}"),
    "sign-in-length": ("Content-Length: +2\r\n", b"{}"),
    "two-lengths": ("Content-Length: 2\r\nContent-Length: 3\r\n", b"{}"),
    "list-of-lengths": ("Content-Length: 2, 2\r\n", b"{}"),
    "huge-length": ("Content-Length: " + "9" * 400 + "\r\n", b"{}"),
    "chunked-twice": ("Transfer-Encoding: chunked, chunked\r\n", b"2\r\n{}\r\n0\r\n\r\n"),
    "chunked-not-last": ("Transfer-Encoding: chunked, gzip\r\n", b"2\r\n{}\r\n0\r\n\r\n"),
    "unknown-coding": ("Transfer-Encoding: klingon\r\n", b"{}"),
    **{name: (CHUNKED, body) for name, body in BODIES.items()},
}
"""Header lines about the framing, and bodies."""

REQUESTS = ("POST /v1/webhooks", "PATCH /v1/webhooks/wh_1", "DELETE /v1/webhooks/wh_1", "POST /receive")


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest, transactional_db: None) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [part.format(port=port) for part in SERVERS[request.param]]
    with subprocess.Popen(
        [sys.executable, "-m", *command],
        # The file of this process, because each worker of xdist has its own.
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "tests.settings",
            "TEST_DATABASE_URL": f"sqlite:///{connection.settings_dict['NAME']}",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        try:
            _await(port, process)
            yield port, process
        finally:
            process.terminate()


def _await(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(300):
        if process.poll() is not None:
            break
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    pytest.fail("The server does not run.")


def send(port: int, key: str, request: str, framing: str, body: bytes, *, ends: bool = True) -> bytes:
    """Send a body and close the connection for writing; return the first line of the answer."""
    head = (
        f"{request} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {key}\r\n{framing}Connection: close\r\n\r\n"
    )
    received = b""
    with socket.create_connection(("127.0.0.1", port), 60) as sock, suppress(ConnectionError):
        sock.sendall(head.encode() + body)
        if ends:
            sock.shutdown(socket.SHUT_WR)
        while piece := sock.recv(4096):
            received += piece
    return received.partition(b"\r\n")[0]


def is_refusal(answer: bytes) -> bool:
    """Return True if the server closed the connection, or answered with a client error or 501 (unknown coding)."""
    return not answer or answer.split()[1].startswith(b"4") or answer.split()[1] == b"501"


def test_a_body_with_broken_framing_is_not_a_server_error(
    server: tuple[int, subprocess.Popen[bytes]], django_user_model: type
) -> None:
    port, process = server
    _, key = ApiKey.objects.make(owner=django_user_model.objects.create_user("alice"))

    answers = {
        (request, name): send(port, key, request, framing, body)
        for request in REQUESTS
        for name, (framing, body) in FRAMINGS.items()
    }
    process.terminate()
    output, _ = process.communicate(timeout=60)

    assert {case: answer for case, answer in answers.items() if not is_refusal(answer)} == {}
    assert b"Traceback" not in output


def test_a_complete_chunked_body_is_read(server: tuple[int, subprocess.Popen[bytes]], django_user_model: type) -> None:
    port, _ = server
    _, key = ApiKey.objects.make(owner=django_user_model.objects.create_user("alice"))

    assert b" 400 " in send(port, key, REQUESTS[0], CHUNKED, b"2\r\n{}\r\n0\r\n\r\n", ends=False)
