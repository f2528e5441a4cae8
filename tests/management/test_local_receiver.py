"""The local receiver of the commands, the demo and the tests."""

from __future__ import annotations

import http.client
import json
import socket
import time
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests

from webhooks_app.receiver.local import Answers, LocalReceiver
from webhooks_app.signatures import signed_headers

from .conftest import SECRET

BODY = json.dumps({"id": "evt_1", "type": "a.b", "created": "2026-01-31T12:00:00Z", "data": {}}).encode()


def post(receiver: LocalReceiver, body: bytes = BODY, secret: str = SECRET) -> requests.Response:
    headers = dict(signed_headers(secret, int(time.time()), "a.b", body))
    return requests.post(receiver.url, data=body, headers=headers, timeout=10)


def raw_answer(receiver: LocalReceiver, request: bytes) -> bytes:
    parts = urlsplit(receiver.url)
    with socket.create_connection((str(parts.hostname), parts.port or 0), timeout=10) as connection:
        connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(4096), b""))


def test_requests_are_recorded_with_their_properties(receiver: LocalReceiver) -> None:
    post(receiver)

    [received] = receiver.received
    assert (received.type, received.event_id, received.is_verified, received.status) == ("a.b", "evt_1", True, 200)
    assert received.body == BODY


def test_a_forgery_does_not_count_as_a_copy(receiver: LocalReceiver) -> None:
    post(receiver, secret="a secret of somebody else")
    post(receiver)

    forged, genuine = receiver.received
    assert forged.problem
    assert (genuine.copy, genuine.is_duplicate, genuine.is_retry) == (1, False, False)
    assert receiver.events() == [genuine]


def test_answers_may_change_while_the_receiver_runs(receiver: LocalReceiver) -> None:
    first = post(receiver).status_code
    receiver.answers = Answers(statuses=(503,))

    assert (first, post(receiver).status_code) == (200, 503)


def test_a_connection_serves_many_requests(receiver: LocalReceiver) -> None:
    parts = urlsplit(receiver.url)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port)

    statuses = []
    for _ in range(3):
        connection.request("POST", "/", BODY, dict(signed_headers(SECRET, int(time.time()), "a.b", BODY)))
        answer = connection.getresponse()
        answer.read()
        statuses.append((answer.status, answer.will_close))
    connection.close()

    assert statuses == [(200, False)] * 3


def test_a_status_without_a_body_leaves_the_connection_usable(receiver: LocalReceiver) -> None:
    receiver.answers = Answers(statuses=(204, 200))

    with requests.Session() as session:
        headers = dict(signed_headers(SECRET, int(time.time()), "a.b", BODY))
        statuses = [session.post(receiver.url, data=BODY, headers=headers, timeout=10).status_code for _ in range(2)]

    assert statuses == [204, 200]


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"405", id="get"),
        pytest.param(b"POST / HTTP/1.1\r\nHost: x\r\n\r\n", b"411", id="no length"),
        pytest.param(b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"411", id="negative length"),
        pytest.param(b"POST / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", b"413", id="too long"),
        pytest.param(b"POST / HTTP/1.1\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n", b"413", id="endless length"),
        pytest.param(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"411", id="chunked"),
    ],
)
def test_other_requests_are_refused(receiver: LocalReceiver, request_bytes: bytes, status: bytes) -> None:
    assert raw_answer(receiver, request_bytes).split()[1] == status
    assert receiver.received == []


def test_an_unfinished_request_is_ignored(receiver: LocalReceiver) -> None:
    parts = urlsplit(receiver.url)
    with socket.create_connection((str(parts.hostname), parts.port or 0), timeout=10) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\n123")
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b""

    assert receiver.received == []


@pytest.mark.parametrize("body", [b"", b"\xff", b"[]", b'{"type": 1}', b"[" * 100_000], ids=lambda body: repr(body[:8]))
def test_every_body_is_answered(body: bytes) -> None:
    with LocalReceiver() as receiver:
        assert post(receiver, body).status_code in (200, 400)


def test_waiting_ends_when_the_condition_holds(receiver: LocalReceiver) -> None:
    assert not receiver.wait_until(lambda received: len(received) > 0, 0.01)

    post(receiver)

    assert receiver.wait_until(lambda received: len(received) > 0, 10)


def test_close_ends_connections_and_delays() -> None:
    receiver = LocalReceiver(answers=Answers(delay_seconds=60))
    receiver.start()
    parts = urlsplit(receiver.url)
    with socket.create_connection((str(parts.hostname), parts.port or 0), timeout=10) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}")
        assert receiver.wait_until(bool, 10)

        receiver.close()

        connection.settimeout(10)
        assert ended(connection)


def ended(connection: Any) -> bool:
    try:
        while connection.recv(4096):
            pass
    except ConnectionResetError:
        pass
    return True


def test_the_receiver_listens_on_ipv6() -> None:
    with LocalReceiver(host="::1", secrets=[SECRET]) as receiver:
        assert receiver.url.startswith("http://[::1]:")
        assert post(receiver).status_code == 200
