"""The number of bytes of a response that a transfer reads."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address

import pytest

from webhooks_app.transport import RESPONSE_READ_LIMIT, Response, TransportOptions
from webhooks_app.transport.connections import Connection
from webhooks_app.transport.sender import Sender
from webhooks_app.transport.transfer import Transfer

from .driving import result_of
from .sending import LOOPBACK, post

HEADER = b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n"


class Exchange:
    """A response in progress, from a receiver that sends no more data."""

    def __init__(self, responding: bytes, sockets: tuple[socket.socket, socket.socket]) -> None:
        self.sock, self.receiver = sockets
        self.sock.setblocking(False)
        self.receiver.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * RESPONSE_READ_LIMIT)
        self.sender = Sender(TransportOptions(allow_http=True, allowed_networks=LOOPBACK), at_most=1)
        url = "http://127.0.0.1:8000/"
        address = IPv4Address("127.0.0.1")
        self.sender.kept.keep(
            Connection(self.sock.dup(), self.sender.sockets, origin=url[:-1], address=address, peer=str(address))
        )
        self.steps = Transfer(post(url, response_kept=RESPONSE_READ_LIMIT, body_seconds=10.0), self.sender).steps()
        next(self.steps)
        self.receiver.recv(65536)  # the request
        self.receiver.sendall(responding)

    def read(self) -> int:
        """Read as much as permitted, and return the length of the decoded body."""
        response: Response | None = result_of(self.steps).response
        assert response is not None
        return len(response.body)

    def unread(self) -> int:
        self.receiver.close()
        self.sock.settimeout(1)
        return sum(iter(lambda: len(self.sock.recv(65536)), 0))


@pytest.fixture
def responding() -> Iterator[Callable[[bytes], Exchange]]:
    sockets = socket.socketpair()
    made: list[Exchange] = []

    def respond(data: bytes) -> Exchange:
        made.append(Exchange(data, sockets))
        return made[-1]

    yield respond
    for sock in sockets:
        sock.close()
    for exchange in made:
        exchange.sender.close()


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
    assert len(exchange.sender.kept) == 1


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
