"""Broken chunked bodies, sent to common servers."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from django.db import connection

from webhooks_app.models import ApiKey

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.only_on("sqlite"), pytest.mark.timeout(240)]

SERVERS = {
    "gunicorn": ["gunicorn", "--bind=127.0.0.1:{port}", "--log-level=warning", "tests.api.served:wsgi"],
    "uvicorn": ["uvicorn", "--port={port}", "--log-level=warning", "--lifespan=off", "tests.api.served:asgi"],
    "waitress": ["waitress", "--listen=127.0.0.1:{port}", "tests.api.served:wsgi"],
}
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
}


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


def post(port: int, key: str, body: bytes, *, ends: bool = True) -> bytes:
    """Send a chunked body and close the connection for writing; return the first line of the answer."""
    head = (
        "POST /v1/webhooks HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {key}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", port), 60) as sock:
        sock.sendall(head.encode() + body)
        if ends:
            sock.shutdown(socket.SHUT_WR)
        received = b""
        while piece := sock.recv(4096):
            received += piece
    return received.partition(b"\r\n")[0]


def test_a_broken_chunked_body_is_not_a_server_error(
    server: tuple[int, subprocess.Popen[bytes]], django_user_model: type
) -> None:
    port, process = server
    _, key = ApiKey.objects.make(owner=django_user_model.objects.create_user("alice"))

    answers = {name: post(port, key, body) for name, body in BODIES.items()}
    process.terminate()
    output, _ = process.communicate(timeout=60)

    # After the end of the connection there is no answer, or the status is that of a client error.
    assert {name: answer for name, answer in answers.items() if answer and b" 4" not in answer[:12]} == {}
    assert b"Traceback" not in output


def test_a_complete_chunked_body_is_read(server: tuple[int, subprocess.Popen[bytes]], django_user_model: type) -> None:
    port, _ = server
    _, key = ApiKey.objects.make(owner=django_user_model.objects.create_user("alice"))

    assert b" 400 " in post(port, key, b"2\r\n{}\r\n0\r\n\r\n", ends=False)
