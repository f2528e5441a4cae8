"""The behavior of every transport with correct receivers."""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Callable, Iterator
from unittest.mock import Mock

import pytest

from webhooks_app.transport import (
    RESPONSE_KEPT,
    RESPONSE_READ_LIMIT,
    BaseTransport,
    ErrorClass,
    Request,
    errors,
)

from ..support.waiting import wait_until
from .receiver import OK, Mode, Peer, Receiver, receiving
from .sending import HEADERS, post, send, send_all, transport

HEADER = b"HTTP/1.1 200 OK\r\nConnection: close\r\n"


def big(peer: Peer) -> None:
    peer.send(HEADER + b"\r\n")
    peer.flood(b"x" * 65536)


def then_silence(peer: Peer) -> None:
    peer.send(HEADER + b"Content-Length: 99\r\n\r\nfirst")
    peer.hold()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    modes: dict[str, Mode | bytes] = {
        "/big": big,
        "/silent": Peer.hold,
        "/bytes": HEADER + b"X-One: a\r\nX-Two:  \xe9 b \r\nX-One: c\r\n folded\r\n\r\nbody \xff\0 end",
        "/drip": then_silence,
        "/interim": b"HTTP/1.1 103 Early\r\nX-Early: yes\r\n\r\n" + HEADER + b"X-Late: yes\r\n\r\n",
        "/chunked": HEADER + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\nX-Trailer: t\r\n\r\n",
        "/gzip": HEADER + b"Content-Encoding: gzip\r\n\r\nnot gzip",
    }
    with receiving(modes) as started:
        yield started


def test_the_request_arrives_unchanged(sender: BaseTransport, receiver: Receiver) -> None:
    send(sender, post(receiver.url("/ok?a=1"), body=b'{"a": "\xc3\xa9\\u0000"}'))

    received = receiver.requests[0]
    assert received.target == "/ok?a=1"
    assert received.body == b'{"a": "\xc3\xa9\\u0000"}'
    assert set(HEADERS) <= set(received.headers)
    assert received.header("Host") == f"127.0.0.1:{receiver.port}"
    assert received.header("Content-Length") == "17"


def test_only_headers_required_by_http_are_added(sender: BaseTransport, receiver: Receiver) -> None:
    send(sender, post(receiver.url()))

    added = {name.lower() for name, _ in receiver.requests[0].headers} - {name.lower() for name, _ in HEADERS}
    assert added == {"host", "content-length", "accept"}


@pytest.mark.parametrize(
    "target",
    [
        "/a%2fb/%7e",
        "/../../etc/passwd",
        "//x//y",
        "/a;b=c,d:e@f?g='h'(i)*!",
        "/?",
        "/%0d%0aX-Injected:%201",
        "/%E2%98%83",
    ],
)
def test_the_target_is_sent_exactly_as_stored(sender: BaseTransport, receiver: Receiver, target: str) -> None:
    send(sender, post(receiver.url(target)))

    assert receiver.requests[0].target == target


def test_a_query_directly_after_the_host_gets_a_path(sender: BaseTransport, receiver: Receiver) -> None:
    send(sender, post(receiver.url("?q=1")))

    assert receiver.requests[0].target == "/?q=1"


@pytest.mark.parametrize("size", [0, 1, 65_536, 262_144])
def test_a_body_of_any_size_arrives_completely(sender: BaseTransport, receiver: Receiver, size: int) -> None:
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)

    send(sender, post(receiver.url(), body=body))

    assert receiver.requests[0].body == body


def test_the_header_and_body_of_a_response_are_stored_exactly(sender: BaseTransport, receiver: Receiver) -> None:
    response = send(sender, post(receiver.url("/bytes"))).response

    assert response is not None
    assert response.headers == (("Connection", "close"), ("X-One", "a"), ("X-Two", "\xe9 b"), ("X-One", "c folded"))
    assert response.body == b"body \xff\0 end"


def test_only_the_final_header_is_stored(sender: BaseTransport, receiver: Receiver) -> None:
    response = send(sender, post(receiver.url("/interim"))).response

    assert response is not None
    assert response.headers == (("Connection", "close"), ("X-Late", "yes"))


def test_a_chunked_body_is_decoded(sender: BaseTransport, receiver: Receiver) -> None:
    response = send(sender, post(receiver.url("/chunked"))).response

    assert response is not None
    assert response.body == b"abcde"


def test_a_compressed_body_is_not_decompressed(sender: BaseTransport, receiver: Receiver) -> None:
    response = send(sender, post(receiver.url("/gzip"))).response

    assert response is not None
    assert response.body == b"not gzip"


def test_the_received_part_of_an_endless_body_is_stored(sender: BaseTransport, receiver: Receiver) -> None:
    response = send(sender, post(receiver.url("/drip"), timeout_seconds=3.0)).response

    assert response is not None
    assert response.body == b"first"


def test_reading_stops_long_before_an_endless_body_uses_much_memory(sender: BaseTransport, receiver: Receiver) -> None:
    exchange = send(sender, post(receiver.url("/big"), timeout_seconds=20.0))

    assert exchange.response is not None
    assert exchange.response.body == b"x" * RESPONSE_KEPT
    assert exchange.duration_seconds < 15
    wait_until(lambda: "/big" in receiver.bytes_sent)
    assert receiver.bytes_sent["/big"] < 20_000_000  # the size of the buffers of both systems


def test_an_exchange_has_the_peer_and_the_duration(sender: BaseTransport, receiver: Receiver) -> None:
    exchange = send(sender, post(receiver.url()))

    assert exchange.peer == "127.0.0.1"
    assert 0 < exchange.timings["connect"] <= exchange.timings["first_byte"] <= exchange.duration_seconds < 5


def test_exchanges_are_returned_as_they_finish(sender: BaseTransport, receiver: Receiver) -> None:
    slow, quick = post(receiver.url("/silent")), post(receiver.url())
    sender.start(slow)
    sender.start(quick)

    first = sender.wait(10.0)

    assert [exchange.request for exchange in first] == [quick]
    assert sender.in_flight == 1


def test_many_requests_are_in_flight_at_once(sender: BaseTransport) -> None:
    together = threading.Barrier(40)

    def meet(peer: Peer) -> None:
        together.wait(20)
        peer.send(OK)

    with receiving({"/meet": meet}) as receiver:
        exchanges = send_all(sender, [post(receiver.url("/meet"), timeout_seconds=20.0) for _ in range(40)])

    assert all(exchange.response for exchange in exchanges)


def test_requests_beyond_the_capacity_are_queued(make: Callable[..., BaseTransport], receiver: Receiver) -> None:
    exchanges = send_all(make(max_in_flight=3), [post(receiver.url()) for _ in range(50)])

    assert all(exchange.response for exchange in exchanges)
    assert receiver.hits("/ok") == 50


def test_the_capacity_stays_below_the_limit_of_open_files(make: Callable[..., BaseTransport]) -> None:
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)

    assert 0 < make(max_in_flight=10**9).capacity < limit


def test_wait_returns_nothing_when_nothing_happens(sender: BaseTransport, receiver: Receiver) -> None:
    sender.start(post(receiver.url("/silent"), timeout_seconds=5.0))
    started_at = time.monotonic()

    assert sender.wait(0.2) == []
    assert 0.15 < time.monotonic() - started_at < 25


def test_wake_ends_the_current_wait(sender: BaseTransport) -> None:
    started_at = time.monotonic()
    threading.Timer(0.2, sender.wake).start()

    assert sender.wait(30.0) == []
    assert time.monotonic() - started_at < 25


def test_wake_before_a_wait_ends_only_that_one(sender: BaseTransport) -> None:
    started_at = time.monotonic()
    sender.wake()

    assert sender.wait(30.0) == []
    assert sender.wait(0.2) == []
    assert 0.15 < time.monotonic() - started_at < 25


def test_close_abandons_requests_in_flight(sender: BaseTransport) -> None:
    hung_up = threading.Event()

    def hold(peer: Peer) -> None:
        peer.hold()
        hung_up.set()

    with receiving({"/hold": hold}) as receiver:
        sender.start(post(receiver.url("/hold"), timeout_seconds=30.0))
        while not receiver.requests:
            sender.wait(0.05)
        sender.close()

        assert sender.in_flight == 0
        assert hung_up.wait(10)


def test_a_connection_is_reused_for_the_next_request(sender: BaseTransport, receiver: Receiver) -> None:
    for _ in range(5):
        send(sender, post(receiver.url()))

    assert receiver.hits("/ok") == 5
    assert len({received.connection for received in receiver.requests[1:]}) == 1


def test_a_connection_closed_without_announcement_costs_no_attempt(sender: BaseTransport) -> None:
    silent_about_it = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

    with receiving({"/close": silent_about_it}) as receiver:
        exchanges = [send(sender, post(receiver.url("/close"))) for _ in range(20)]

    assert all(exchange.response for exchange in exchanges)
    assert receiver.hits("/close") == 20


def test_a_request_is_not_repeated_after_a_failure_of_a_reused_connection(sender: BaseTransport) -> None:
    with receiving({"/break": lambda peer: peer.reset()}) as receiver:
        for _ in range(2):
            send(sender, post(receiver.url("/ok")))
        exchange = send(sender, post(receiver.url("/break")))

    assert receiver.requests[2].connection == receiver.requests[1].connection
    assert receiver.hits("/break") == 1
    assert exchange.error is not None
    assert exchange.error.error_class is ErrorClass.CONNECTION_ERROR


def test_a_refused_connection_is_a_connection_error(sender: BaseTransport, receiver: Receiver) -> None:
    receiver.close()

    exchange = send(sender, post(receiver.url()))

    assert exchange.error is not None
    assert exchange.error.error_class is ErrorClass.CONNECTION_ERROR
    assert f"127.0.0.1:{receiver.port}" in exchange.error.message


def test_an_immediate_reset_is_a_lost_connection(sender: BaseTransport) -> None:
    with receiving(act=Peer.reset) as receiver:
        exchanges = send_all(sender, [post(receiver.url()) for _ in range(20)])

    assert {exchange.error for exchange in exchanges} == {errors.connection_lost()}


def test_an_answer_before_the_end_of_the_request_counts(sender: BaseTransport) -> None:
    def refuse(peer: Peer) -> None:
        peer.read_header()
        peer.send(b"HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
        peer.stop_sending()

    with receiving(act=refuse) as receiver:
        response = send(sender, post(receiver.url(), body=b"x" * 8_000_000)).response

    assert response is not None
    assert response.status == 413


@pytest.mark.parametrize("size", [RESPONSE_KEPT + 100, RESPONSE_READ_LIMIT])
def test_the_request_determines_the_stored_size_of_the_body(sender: BaseTransport, size: int) -> None:
    body = b"x" * size

    with receiving({"/long": HEADER + b"Content-Length: %d\r\n\r\n" % size + body}) as receiver:
        response = send(sender, post(receiver.url("/long"), response_kept=RESPONSE_READ_LIMIT)).response

    assert response is not None
    assert response.body == body


def test_a_slow_body_is_abandoned_soon_after_the_header(sender: BaseTransport) -> None:
    def drip(peer: Peer) -> None:
        peer.send(HEADER + b"\r\n")
        peer.drip(b"body")

    with receiving({"/drip": drip}) as receiver:
        brief, whole = send_all(
            sender,
            [
                post(receiver.url("/drip"), body_seconds=0.3),
                post(receiver.url("/drip"), body_seconds=9.0, timeout_seconds=4.0),
            ],
        )

    assert brief.response is not None
    assert brief.response.status == 200
    assert brief.duration_seconds < 3.9
    assert 3.9 < whole.duration_seconds < 8


def test_ipv6_is_supported(sender: BaseTransport) -> None:
    with receiving(host="::1") as receiver:
        exchange = send(sender, post(receiver.url(host="[::1]")))

        assert exchange.response is not None
        assert exchange.peer == "::1"
        assert receiver.requests[0].header("Host") == f"[::1]:{receiver.port}"


@pytest.mark.parametrize("value", ["a\r\nX-Injected: 1", "a\nb", "a\0b", "\u2603"])
def test_an_invalid_header_fails_only_its_request(sender: BaseTransport, receiver: Receiver, value: str) -> None:
    bad = Request(url=receiver.url(), headers=(("X-Bad", value),), body=b"{}", timeout_seconds=5.0)

    refused, sent = send_all(sender, [bad, post(receiver.url())])

    assert refused.error is not None
    assert refused.error.error_class is ErrorClass.INTERNAL_ERROR
    assert sent.response is not None
    assert len(receiver.requests) == 1


def test_an_empty_header_value_is_sent(sender: BaseTransport, receiver: Receiver) -> None:
    send(sender, Request(url=receiver.url(), headers=(("X-Empty", ""),), body=b"{}", timeout_seconds=5.0))

    assert receiver.requests[0].header("X-Empty") == ""


def test_cookies_are_not_sent_back(sender: BaseTransport) -> None:
    cookie = b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b; Path=/\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

    with receiving({"/cookie": cookie}) as receiver:
        send(sender, post(receiver.url("/cookie")))
        send(sender, post(receiver.url("/ok")))

        assert receiver.requests[1].header("Cookie") is None


def test_a_request_whose_thread_cannot_start_fails_alone(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    sender = transport("requests", max_in_flight=1)

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", Mock(side_effect=RuntimeError("can't start new thread")))
        failed = send(sender, post(receiver.url()))
    sent = send(sender, post(receiver.url()))

    assert failed.error is not None
    assert failed.error.error_class is ErrorClass.INTERNAL_ERROR
    assert sent.response is not None
    sender.close()
