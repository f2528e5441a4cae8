"""The number of bytes of a response that the requests transport reads."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator

import pytest

from webhooks_app.transport import RESPONSE_READ_LIMIT, parse_endpoint
from webhooks_app.transport.connection import Answer, Connection
from webhooks_app.transport.wire_request import Attempt

from .sending import LOOPBACK, post

HEADER = b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n"


class Exchange:
    """A response in progress, from a receiver that sends no more data."""

    def __init__(self, responding: bytes, sockets: tuple[socket.socket, socket.socket]) -> None:
        self.sock, self.receiver = sockets
        self.receiver.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * RESPONSE_READ_LIMIT)
        self.receiver.sendall(responding)
        self.kept: list[Connection] = []
        url = "http://127.0.0.1:8000/"
        endpoint = parse_endpoint(url, allow_http=True, allowed_networks=LOOPBACK)
        request = post(url, timeout_seconds=1.0, response_kept=RESPONSE_READ_LIMIT)
        self.attempt = Attempt(request, endpoint, time.monotonic())
        connection = Connection(self.sock, origin=endpoint.origin, address=endpoint.host, peer=endpoint.host)
        self.answer = Answer(connection, self.attempt, self.kept.append)

    def read(self) -> int:
        """Read as much as permitted, and return the length of the decoded body."""
        self.answer.read_header()
        with contextlib.suppress(OSError):
            self.answer.read_body()
        assert self.attempt.reader.response is not None
        return len(self.attempt.reader.response.body)

    def unread(self) -> int:
        self.receiver.close()
        self.sock.settimeout(1)
        return sum(iter(lambda: len(self.sock.recv(65536)), 0))


@pytest.fixture
def responding() -> Iterator[Callable[[bytes], Exchange]]:
    sockets = socket.socketpair()
    yield lambda data: Exchange(data, sockets)
    for sock in sockets:
        sock.close()


@pytest.mark.parametrize(
    ("framing", "overhead"),
    [
        (b"\r\n", 0),
        (b"Content-Length: 200000\r\n\r\n", 0),
        (b"Transfer-Encoding: chunked\r\n\r\n30000\r\n", 7),
    ],
    ids=["to-the-end", "length", "chunk"],
)
def test_no_more_is_read_than_the_limit(responding: Callable[[bytes], Exchange], framing: bytes, overhead: int) -> None:
    exchange = responding(HEADER + framing + b"x" * 150_000)

    assert exchange.read() == RESPONSE_READ_LIMIT - overhead
    assert exchange.unread() == 150_000 + overhead - RESPONSE_READ_LIMIT


def test_a_body_of_exactly_the_limit_is_read_and_its_connection_reused(responding: Callable[[bytes], Exchange]) -> None:
    exchange = responding(HEADER + b"Content-Length: 65536\r\n\r\n" + b"x" * RESPONSE_READ_LIMIT)

    assert exchange.read() == RESPONSE_READ_LIMIT
    exchange.answer.close()
    assert len(exchange.kept) == 1


@pytest.mark.parametrize(
    ("body", "length"),
    [
        (b"2\r\nok\r\n0\r\n\r\n", 2),
        (b"2;name=value\r\nok\r\n000\r\n\r\n", 2),
        (b"2 \r\nok\r\n0\r\nX-Trailer: t\r\n\r\n", 2),
        (b"2\nok\n0\n\n", 2),
        (b"2\r\nokay\r\n0\r\n\r\n", 2),
        (b"-2\r\nok\r\n0\r\n\r\n", 0),
        (b"+2\r\nok\r\n0\r\n\r\n", 0),
        (b"0x2\r\nok\r\n0\r\n\r\n", 0),
        (b"2_0\r\nok\r\n0\r\n\r\n", 0),
        (b"\r\nok\r\n0\r\n\r\n", 0),
        (b"fffffffffffffffffff\r\nok\r\n0\r\n\r\n", 0),
    ],
    ids=ascii,
)
def test_a_chunk_size_must_be_a_plain_number(responding: Callable[[bytes], Exchange], body: bytes, length: int) -> None:
    assert responding(HEADER + b"Transfer-Encoding: chunked\r\n\r\n" + body).read() == length
