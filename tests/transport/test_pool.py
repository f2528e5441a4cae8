"""Reuse of connections: only for the same host, and never after a doubtful response."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from webhooks_app.transport import BaseTransport, ErrorClass, Exchange, errors

from .receiver import Kept, Mode, Peer, receiving
from .sending import answers, post, send, send_all

KEEP = b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n"
CHUNKED = KEEP + b"Transfer-Encoding: chunked\r\n\r\n"
MINE = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\nmine"
NOT_MINE = KEEP.replace(b"200", b"500") + b"Content-Length: 5\r\n\r\nstale"

CLEAN = {
    "length": KEEP + b"Content-Length: 2\r\n\r\nok",
    "no-body": KEEP + b"Content-Length: 0\r\n\r\n",
    "chunks": CHUNKED + b"2\r\nok\r\n0\r\n\r\n",
    "chunks-and-trailers": CHUNKED + b"2\r\nok\r\n0\r\nX-A: a\r\nX-B: b\r\n\r\n",
    "keep-alive-among-others": b"HTTP/1.1 200 OK\r\nConnection: X-A, Keep-Alive\r\nContent-Length: 2\r\n\r\nok",
    "http-1.0": KEEP.replace(b"1.1", b"1.0") + b"Content-Length: 2\r\n\r\nok",
    "after-103": b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + KEEP + b"Content-Length: 2\r\n\r\nok",
    "204": b"HTTP/1.1 204 No Content\r\nConnection: keep-alive\r\n\r\n",
    "500": KEEP.replace(b"200 OK", b"500 Error") + b"Content-Length: 2\r\n\r\nno",
}

DOUBTFUL = {
    "more-than-announced": KEEP + b"Content-Length: 2\r\n\r\nok and more",
    "a-second-answer": KEEP + b"Content-Length: 2\r\n\r\nok" + NOT_MINE,
    "a-second-answer-after-none": KEEP + b"Content-Length: 0\r\n\r\n" + NOT_MINE,
    "a-second-answer-after-chunks": CHUNKED + b"2\r\nok\r\n0\r\n\r\n" + NOT_MINE,
    "a-second-answer-for-a-trailer": CHUNKED + b"2\r\nok\r\n0\r\n" + NOT_MINE,
    "a-line-break-after-chunks": CHUNKED + b"2\r\nok\r\n0\r\n\r\n\r\n",
    "a-line-break-after-a-length": KEEP + b"Content-Length: 2\r\n\r\nok\r\n",
    "a-second-answer-after-204": b"HTTP/1.1 204 None\r\nConnection: keep-alive\r\n\r\n" + NOT_MINE,
    "a-body-with-304": b"HTTP/1.1 304 Same\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nstale",
    "less-than-announced": KEEP + b"Content-Length: 9\r\n\r\nok",
    "without-a-length": KEEP + b"\r\nok",
    "an-unfinished-chunk": CHUNKED + b"9\r\nok",
    "no-last-chunk": CHUNKED + b"2\r\nok\r\n",
    "chunks-and-a-length": KEEP + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "two-lengths": KEEP + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nok",
    "odd-length": KEEP + b"Content-Length: +2\r\n\r\nok",
    "negative-length": KEEP + b"Content-Length: -1\r\n\r\nok",
    "broken-chunks": CHUNKED + b"zz\r\nok\r\n0\r\n\r\n",
    "a-chunk-longer-than-announced": CHUNKED + b"2\r\nokay\r\n0\r\n\r\n",
    "chunks-after-204": CHUNKED.replace(b"200 OK", b"204 None") + b"2\r\nok\r\n0\r\n\r\n",
    "chunks-by-http-1.0": CHUNKED.replace(b"1.1", b"1.0") + b"2\r\nok\r\n0\r\n\r\n",
    "another-coding-in-the-chunks": KEEP + b"Transfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "a-length-and-a-space": KEEP + b"Content-Length : 0\r\nContent-Length: 2\r\n\r\nok",
    "the-same-length-twice": KEEP + b"Content-Length: 2, 2\r\n\r\nok",
    "close-and-keep-alive": b"HTTP/1.1 200 OK\r\nConnection: close\r\n" + KEEP[17:] + b"Content-Length: 2\r\n\r\nok",
    "keep-alive-or-close": b"HTTP/1.1 200 OK\r\nConnection: keep-alive, close\r\nContent-Length: 2\r\n\r\nok",
    "no-keep-alive": b"HTTP/1.1 200 OK\r\nConnection: no-keep-alive\r\nContent-Length: 2\r\n\r\nok",
    "101": b"HTTP/1.1 101 Switching\r\nConnection: keep-alive, Upgrade\r\nUpgrade: x\r\n\r\n",
    "larger-than-is-read": KEEP + b"Content-Length: 200000\r\n\r\n" + b"x" * 200_000,
}


def warmed_up(sender: BaseTransport, url: str) -> None:
    """Send twice, because an unknown receiver may close the connection of the first request."""
    for _ in range(2):
        assert send(sender, post(url)).response is not None


@pytest.mark.parametrize("row", CLEAN)
def test_a_connection_is_reused_after_a_clean_response(sender: BaseTransport, row: str) -> None:
    with receiving({"/clean": Kept(CLEAN[row])}) as receiver:
        warmed_up(sender, receiver.url("/ok"))
        send(sender, post(receiver.url("/clean")))
        send(sender, post(receiver.url("/ok")))

    assert len({received.connection for received in receiver.requests[1:]}) == 1


@pytest.mark.parametrize("row", DOUBTFUL)
def test_a_connection_is_not_reused_after_a_doubtful_response(sender: BaseTransport, row: str) -> None:
    with receiving({"/odd": Kept(DOUBTFUL[row]), "/next": MINE}) as receiver:
        warmed_up(sender, receiver.url("/ok"))
        odd = send(sender, post(receiver.url("/odd"), timeout_seconds=1.0))
        following = send(sender, post(receiver.url("/next")))

    assert odd.response is not None
    assert following.response is not None
    assert (following.response.status, following.response.body) == (200, b"mine")
    assert [received.target for received in receiver.requests[2:]] == ["/odd", "/next"]
    assert receiver.requests[3].connection != receiver.requests[2].connection


def test_an_unsolicited_response_is_not_attributed_to_the_next_request(sender: BaseTransport) -> None:
    released, said = threading.Event(), threading.Event()

    def speak_again(peer: Peer) -> None:
        peer.send(KEEP + b"Content-Length: 2\r\n\r\nok")
        released.wait(10)
        peer.send(NOT_MINE)
        peer.wait_until_delivered()
        said.set()
        peer.hold()

    with receiving({"/twice": speak_again, "/next": MINE}) as receiver:
        warmed_up(sender, receiver.url("/ok"))
        send(sender, post(receiver.url("/twice")))
        released.set()
        assert said.wait(10)
        following = send(sender, post(receiver.url("/next")))

    assert following.response is not None
    assert following.response.body == b"mine"
    assert receiver.hits("/next") == 1


def test_a_connection_closed_while_idle_costs_no_attempt(sender: BaseTransport) -> None:
    closed = threading.Event()

    def close_later(peer: Peer) -> None:
        peer.send(KEEP + b"Content-Length: 2\r\n\r\nok")
        peer.end()
        peer.wait_until_delivered()
        closed.set()

    with receiving({"/later": close_later, "/next": MINE}) as receiver:
        warmed_up(sender, receiver.url("/ok"))
        send(sender, post(receiver.url("/later")))
        assert closed.wait(10)
        following = send(sender, post(receiver.url("/next")))

    assert following.response is not None
    assert receiver.hits("/next") == 1


@pytest.mark.parametrize("break_off", [Peer.end, Peer.reset], ids=["close", "reset"])
def test_a_request_on_a_failing_reused_connection_is_not_sent_again(
    sender: BaseTransport, break_off: Callable[[Peer], None]
) -> None:
    with receiving({"/break": break_off}) as receiver:
        warmed_up(sender, receiver.url("/ok"))
        exchange = send(sender, post(receiver.url("/break")))

    assert receiver.requests[2].connection == receiver.requests[1].connection
    assert receiver.hits("/break") == 1
    assert exchange.error is not None
    assert exchange.error.error_class is ErrorClass.CONNECTION_ERROR


@pytest.mark.parametrize("break_off", [Peer.end, Peer.reset], ids=["close", "reset"])
def test_the_error_mentions_a_reused_connection_and_the_next_request_uses_a_new_one(
    sender: BaseTransport, break_off: Callable[[Peer], None]
) -> None:
    with receiving({"/break": break_off}) as receiver:
        warmed_up(sender, receiver.url("/ok"))
        exchange = send(sender, post(receiver.url("/break")))
        for _ in range(3):
            send(sender, post(receiver.url("/ok")))

    assert exchange.error == errors.connection_lost(was_kept=True)
    assert len({received.connection for received in receiver.requests[2:]}) == 4


def test_a_request_for_a_new_connection_gets_one(sender: BaseTransport) -> None:
    with receiving() as receiver:
        warmed_up(sender, receiver.url("/ok"))
        send(sender, post(receiver.url("/ok"), fresh_connection=True))

    assert receiver.requests[2].connection not in {received.connection for received in receiver.requests[:2]}


@pytest.mark.parametrize("mode", [Peer.hold, lambda peer: peer.drip(b"HTTP/1.1 200 O")], ids=["silent", "drips"])
def test_a_connection_is_not_reused_after_a_timeout(sender: BaseTransport, mode: Mode) -> None:
    with receiving({"/late": mode, "/next": MINE}) as receiver:
        warmed_up(sender, receiver.url("/ok"))
        send(sender, post(receiver.url("/late"), timeout_seconds=2.0))
        following = send(sender, post(receiver.url("/next")))

    assert following.response is not None
    assert following.response.body == b"mine"
    assert receiver.requests[3].connection != receiver.requests[2].connection


def test_a_connection_is_not_reused_for_another_host_at_the_same_address(make: Callable[..., BaseTransport]) -> None:
    sender = make(resolve=answers(one_example_com=["127.0.0.1"], two_example_com=["127.0.0.1"]))

    with receiving() as receiver:
        for host in ("one.example.com", "one.example.com", "two.example.com", "127.0.0.1"):
            send(sender, post(receiver.url("/ok", host)))
            send(sender, post(receiver.url("/ok", host)))

    by_connection = {received.connection: received.header("Host") for received in receiver.requests}
    assert all(by_connection[received.connection] == received.header("Host") for received in receiver.requests)


def test_concurrent_requests_never_share_a_connection(sender: BaseTransport) -> None:
    with receiving({"/hold": Peer.hold}) as receiver:
        warmed_up(sender, receiver.url("/ok"))
        requests = [post(receiver.url("/hold"), timeout_seconds=3.0) for _ in range(8)]
        send_all(sender, [*requests, post(receiver.url("/ok"))])

    held = [received.connection for received in receiver.requests if received.target == "/hold"]
    assert len(set(held)) == 8


def test_a_connection_is_not_reused_after_an_incomplete_request(sender: BaseTransport) -> None:
    early = KEEP + b"Content-Length: 0\r\n\r\n"
    done = threading.Event()

    def answer_at_once(peer: Peer) -> None:
        peer.read_header()
        peer.send(early)
        done.wait(30)

    with receiving(act=answer_at_once) as receiver:
        requests = [post(receiver.url(), body=b"x" * 8_000_000, timeout_seconds=5.0) for _ in range(3)]
        statuses = [_status(send(sender, request)) for request in requests]
        done.set()

    assert statuses == [200, 200, 200]
    assert receiver.connections == 3


def _status(exchange: Exchange) -> int | None:
    return exchange.response and exchange.response.status
