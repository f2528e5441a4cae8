"""Connections to the fastest of several addresses."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence

import pytest

from webhooks_app.transport import opening
from webhooks_app.transport.connections import Sockets
from webhooks_app.transport.opening import NEXT_ADDRESS_SECONDS

from .driving import result_of
from .receiver import Peer, receiving
from .test_guard import full_backlog


def connect_to_first(addresses: Sequence[str], port: int, seconds: float) -> socket.socket:
    sock, address = result_of(opening.connect_to_first(Sockets(), addresses, port, time.monotonic() + seconds))
    assert sock.getpeername()[0] == address
    return sock


def test_the_first_accepting_address_wins() -> None:
    with receiving(host="0.0.0.0") as receiver, connect_to_first(["127.0.0.2", "127.0.0.1"], receiver.port, 5) as sock:
        assert sock.getpeername()[0] == "127.0.0.2"
        time.sleep(NEXT_ADDRESS_SECONDS * 2)
        assert receiver.connections == 1


def test_a_refused_address_costs_no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "NEXT_ADDRESS_SECONDS", 60)

    with receiving() as receiver, connect_to_first(["127.0.0.9", "127.0.0.1"], receiver.port, 5) as sock:
        assert sock.getpeername()[0] == "127.0.0.1"


def test_the_next_addresses_are_tried_while_earlier_ones_are_silent() -> None:
    started_at = time.monotonic()

    with full_backlog("127.0.0.9") as port, receiving(port=port) as receiver:
        silent = ["127.0.0.9", "127.0.0.9", "127.0.0.9"]
        with connect_to_first([*silent, "127.0.0.1"], receiver.port, 10) as sock:
            assert sock.getpeername()[0] == "127.0.0.1"
    assert 3 * NEXT_ADDRESS_SECONDS <= time.monotonic() - started_at < 9


def test_an_address_of_an_unavailable_family_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "AF_INET6", 255)  # as if IPv6 were switched off in the kernel

    with receiving() as receiver, connect_to_first(["::1", "127.0.0.1"], receiver.port, 5) as sock:
        assert sock.getpeername()[0] == "127.0.0.1"


def test_no_data_is_sent_during_the_race() -> None:
    heard: list[bytes] = []

    def listen(peer: Peer) -> None:
        peer.sock.settimeout(1)
        heard.append(peer.sock.recv(100))

    with receiving(act=listen) as receiver:
        connect_to_first(["127.0.0.1"], receiver.port, 5).close()
        until = time.monotonic() + 5
        while not heard and time.monotonic() < until:
            time.sleep(0.01)

    assert heard == [b""]


def test_the_error_of_the_last_address_is_raised() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]

    with pytest.raises(ConnectionRefusedError):
        connect_to_first(["127.0.0.1", "127.0.0.2"], port, 5)


def test_a_race_without_a_winner_ends_at_the_deadline() -> None:
    started_at = time.monotonic()

    with full_backlog("127.0.0.9") as port, pytest.raises(TimeoutError):
        connect_to_first(["127.0.0.9", "127.0.0.9"], port, 0.6)
    assert 0.5 < time.monotonic() - started_at < 9
