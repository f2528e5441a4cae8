"""The address guard: the resolved addresses of a name are checked at every attempt."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from webhooks_app.transport import BaseTransport, ErrorClass, parse_endpoint

from .receiver import Peer, Receiver, receiving
from .sending import answers, post, send, send_all

HOST = "hooks.example.com"
ATTEMPTED: list[dict[str, Any]] = [
    case
    for case in json.loads(Path(__file__).with_name("urls.json").read_text())
    if case["expect"] == "blocked_at_send" and "redirect_to" not in case
]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as started:
        yield started


def looks(case: dict[str, Any]) -> list[list[str]]:
    """Return the answers to successive lookups of the case's name."""
    answer: list[Any] = case["resolves_to"]
    return answer if isinstance(answer[0], list) else [answer]


@pytest.mark.parametrize("case", ATTEMPTED, ids=lambda case: case["id"])
def test_a_name_with_a_refused_address_is_refused(make: Callable[..., BaseTransport], case: dict[str, Any]) -> None:
    sender = make(allowed_networks=(), resolve=lambda _host, _port: looks(case)[-1])

    exchange = send(sender, post(case["url"]))

    assert exchange.error is not None
    assert exchange.error.error_class is ErrorClass.ADDRESS_REFUSED
    assert exchange.peer == ""
    host = parse_endpoint(case["url"]).host
    assert exchange.error.message == f"The name {host} resolves to an address to which webhooks must not be sent."


@pytest.mark.parametrize("answer", [["127.0.0.1", "10.0.0.1"], ["10.0.0.1", "127.0.0.1"], ["127.0.0.1", "fe80::1%lo"]])
def test_one_refused_address_refuses_the_whole_answer(
    make: Callable[..., BaseTransport], receiver: Receiver, answer: list[str]
) -> None:
    exchange = send(make(resolve=answers(hooks_example_com=answer)), post(receiver.url("/ok", HOST)))

    assert exchange.error is not None
    assert exchange.error.error_class is ErrorClass.ADDRESS_REFUSED
    assert receiver.connections == 0


@pytest.mark.parametrize("answer", [["127.0.0.1"], ["127.0.0.2", "127.0.0.1"]])
def test_an_address_refused_by_the_operator_is_refused_even_if_allowed(
    make: Callable[..., BaseTransport], receiver: Receiver, answer: list[str]
) -> None:
    sender = make(resolve=answers(hooks_example_com=answer), refused_networks=(ip_network("127.0.0.1/32"),))

    exchanges = [send(sender, post(receiver.url("/ok", host))) for host in (HOST, "127.0.0.1")]

    assert {exchange.error.error_class for exchange in exchanges if exchange.error} == {ErrorClass.ADDRESS_REFUSED}
    assert all(exchange.response is None for exchange in exchanges)
    assert receiver.connections == 0


def test_every_attempt_resolves_the_name_again(make: Callable[..., BaseTransport], receiver: Receiver) -> None:
    looked = iter([["127.0.0.1"], ["127.0.0.1"], ["10.0.0.5"]])
    sender = make(resolve=lambda _host, _port: next(looked))

    outcomes = [send(sender, post(receiver.url("/ok", HOST))) for _ in range(3)]

    assert [outcome.response is not None for outcome in outcomes] == [True, True, False]
    assert receiver.hits("/ok") == 2


def test_a_connection_is_not_reused_for_another_address(make: Callable[..., BaseTransport]) -> None:
    looked = iter([["127.0.0.1"], ["127.0.0.1"], ["127.0.0.2"]])
    sender = make(resolve=lambda _host, _port: next(looked))

    with receiving(host="0.0.0.0") as receiver:
        peers = [send(sender, post(receiver.url("/ok", HOST))).peer for _ in range(3)]

    assert peers == ["127.0.0.1", "127.0.0.1", "127.0.0.2"]
    assert receiver.hits("/ok") == 3


def test_a_name_is_pinned_again_for_every_attempt(
    make: Callable[..., BaseTransport], receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webhooks_app.transport.connections.IDLE_CONNECTION_SECONDS", 0)
    sender = make(resolve=answers(hooks_example_com=["127.0.0.1"]))

    send(sender, post(receiver.url("/ok", HOST)))
    exchange = send(sender, post(receiver.url("/ok", HOST)))

    assert exchange.response is not None
    assert receiver.connections == 2


def test_a_refused_url_is_also_refused_at_the_attempt(make: Callable[..., BaseTransport]) -> None:
    exchange = send(make(allowed_networks=()), post("http://127.0.0.1:8000/hook"))

    assert exchange.error is not None
    assert exchange.error.error_class is ErrorClass.ADDRESS_REFUSED
    assert "loopback" in exchange.error.message


def test_the_second_address_is_tried_if_the_first_fails(make: Callable[..., BaseTransport], receiver: Receiver) -> None:
    sender = make(resolve=answers(hooks_example_com=["127.0.0.9", "127.0.0.1"]))

    exchange = send(sender, post(receiver.url("/ok", HOST)))

    assert exchange.response is not None
    assert exchange.peer == "127.0.0.1"
    assert receiver.hits("/ok") == 1


def test_ipv4_is_tried_if_ipv6_fails(make: Callable[..., BaseTransport], receiver: Receiver) -> None:
    exchange = send(make(resolve=answers(hooks_example_com=["::1", "127.0.0.1"])), post(receiver.url("/ok", HOST)))

    assert exchange.response is not None
    assert exchange.peer == "127.0.0.1"


def test_an_address_that_never_answers_leaves_time_for_the_next(make: Callable[..., BaseTransport]) -> None:
    with full_backlog("127.0.0.9") as port, receiving(port=port) as receiver:
        sender = make(resolve=answers(hooks_example_com=["127.0.0.9", "127.0.0.1"]))
        exchange = send(sender, post(receiver.url("/ok", HOST), timeout_seconds=20.0))

    assert exchange.response is not None
    assert exchange.duration_seconds < 9
    assert exchange.peer == "127.0.0.1"
    assert receiver.hits("/ok") == 1


def test_no_request_is_sent_on_a_connection_that_lost_the_race(make: Callable[..., BaseTransport]) -> None:
    with receiving(act=Peer.hold, host="127.0.0.9") as slow, receiving(port=slow.port) as receiver:
        sender = make(resolve=answers(hooks_example_com=["127.0.0.9", "127.0.0.1"]))
        exchange = send(sender, post(receiver.url("/ok", HOST), timeout_seconds=1.0))

    assert exchange.peer == "127.0.0.9"  # the first to accept, which is then kept
    assert receiver.connections == 0


def test_a_receiver_that_accepts_no_connection_fails_by_timeout(sender: BaseTransport) -> None:
    with full_backlog("127.0.0.9") as port:
        exchange = send(sender, post(f"http://127.0.0.9:{port}/", timeout_seconds=1.0))

    assert exchange.error is not None
    assert exchange.error.error_class is ErrorClass.TIMEOUT
    assert 0.9 < exchange.duration_seconds < 5


@pytest.mark.parametrize("answer", [[], OSError("no such name"), UnicodeError("label too long")], ids=repr)
def test_a_name_without_an_address_is_a_dns_error(make: Callable[..., BaseTransport], answer: Any) -> None:
    def resolve(_host: str, _port: int) -> list[str]:
        if isinstance(answer, Exception):
            raise answer
        return list(answer)

    exchange = send(make(resolve=resolve), post(f"http://{HOST}/"))

    assert exchange.error is not None
    assert exchange.error.error_class is ErrorClass.DNS_ERROR
    assert HOST in exchange.error.message


def test_a_hanging_name_server_delays_no_other_name(make: Callable[..., BaseTransport], receiver: Receiver) -> None:
    released = threading.Event()

    def resolve(host: str, _port: int) -> list[str]:
        if host == "hang.example.com":
            released.wait(30)
        return ["127.0.0.1"]

    sender = make(resolve=resolve)
    hanging = [post(receiver.url("/hang", "hang.example.com"), timeout_seconds=4.5) for _ in range(20)]
    exchanges = send_all(sender, [*hanging, post(receiver.url("/ok", HOST))])
    released.set()

    assert {exchange.error.error_class for exchange in exchanges[:-1] if exchange.error} == {ErrorClass.DNS_ERROR}
    assert all(4.4 < exchange.duration_seconds < 15 for exchange in exchanges[:-1])
    assert exchanges[-1].response is not None
    assert exchanges[-1].duration_seconds < 4.4
    assert receiver.hits("/hang") == 0


def test_the_timeout_of_an_attempt_includes_the_lookup(make: Callable[..., BaseTransport]) -> None:
    def resolve(_host: str, _port: int) -> list[str]:
        time.sleep(4)
        return ["127.0.0.1"]

    with receiving({"/silent": Peer.hold}) as receiver:
        exchange = send(make(resolve=resolve), post(receiver.url("/silent", HOST), timeout_seconds=5.0))

    assert exchange.error is not None
    assert exchange.error.error_class is ErrorClass.TIMEOUT
    assert 4.9 < exchange.duration_seconds < 8.9
    assert exchange.timings["dns"] >= 4


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("location", ["http://127.0.0.1:{port}/", "//127.0.0.1:{port}/", "/ok", "file:///etc/passwd"])
def test_a_redirect_is_returned_as_a_response(
    sender: BaseTransport, receiver: Receiver, code: int, location: str
) -> None:
    target = location.format(port=receiver.port)
    redirect = f"HTTP/1.1 {code} Elsewhere\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n".encode()

    with receiving({"/redirect": redirect}) as redirecting:
        response = send(sender, post(redirecting.url("/redirect"))).response

    assert response is not None
    assert response.status == code
    assert ("Location", target) in response.headers
    assert receiver.connections == 0
    assert len(redirecting.requests) == 1


def test_a_redirect_with_an_endless_body_costs_no_memory(sender: BaseTransport) -> None:
    def redirect(peer: Peer) -> None:
        peer.send(b"HTTP/1.1 302 Found\r\nLocation: /ok\r\n\r\n")
        peer.flood(b"x" * 65536)

    with receiving({"/redirect": redirect}) as receiver:
        exchange = send(sender, post(receiver.url("/redirect"), timeout_seconds=20.0))

    assert exchange.response is not None
    assert exchange.duration_seconds < 15


@contextlib.contextmanager
def full_backlog(host: str) -> Iterator[int]:
    """A port that drops connection attempts, as a firewall does."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server((host, 0), backlog=0))
        for _ in range(8):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]
