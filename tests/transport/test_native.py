"""The event loop of the default transport: isolation of its transfers, and forked processes."""

from __future__ import annotations

import gc
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator

import pytest

from webhooks_app.transport import BaseTransport, Request

from ..support.hanging_names import HangingNames
from .receiver import OK, Peer, Receiver, receiving
from .sending import post, send, transport

TINY_CHUNKS = (
    b"HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\nx\n" * 16_000 + b"0\r\n\r\n"
)


@pytest.fixture
def sender() -> Iterator[BaseTransport]:
    made = transport("native")
    yield made
    made.close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving({"/hold": Peer.hold, "/large": TINY_CHUNKS}) as started:
        yield started


def longest_turn(sender: BaseTransport, others: list[Request]) -> float:
    """Return the longest time in which the loop attended to no other transfer, without the garbage collector's."""
    for request in others:
        sender.start(request)
    longest = 0.0
    until = time.monotonic() + 1.0
    gc.disable()
    try:
        while sender.in_flight and time.monotonic() < until:
            before = time.thread_time()
            sender.wait(0.0)
            longest = max(longest, time.thread_time() - before)
    finally:
        gc.enable()
    return longest


def test_a_large_answer_does_not_delay_others(sender: BaseTransport, receiver: Receiver) -> None:
    assert min(longest_turn(sender, [post(receiver.url("/large"))]) for _ in range(6)) < 0.01


def test_slow_handshakes_do_not_delay_others(sender: BaseTransport) -> None:
    record = b"\x16\x03\x03\x40\x00\x02" + b"\0" * 16_000

    with receiving(act=lambda peer: peer.drip(record, 0.001)) as slow:
        stalled = [post(f"https://127.0.0.1:{slow.port}/", timeout_seconds=2.0) for _ in range(5)]
        assert min(longest_turn(sender, stalled) for _ in range(6)) < 0.01


def test_hanging_names_do_not_delay_others(receiver: Receiver) -> None:
    names = HangingNames()
    sender = transport("native", resolve=names)
    for number in range(20):
        sender.start(post(f"https://hang{number}.test/", timeout_seconds=60.0))
    sender.wait(0.1)

    taken = []
    for _ in range(20):
        before = time.monotonic()
        sender.start(quick := post(receiver.url()))
        assert [exchange.request for exchange in sender.wait(20.0)] == [quick]
        taken.append(time.monotonic() - before)

    assert min(taken) < 0.1
    assert sender.in_flight == 20
    names.released.set()
    sender.close()


def test_an_answer_arrives_beside_stalled_handshakes(sender: BaseTransport, receiver: Receiver) -> None:
    with receiving(act=Peer.hold) as slow:
        for _ in range(20):
            sender.start(post(f"https://127.0.0.1:{slow.port}/", timeout_seconds=10.0))
        sender.start(quick := post(receiver.url()))

        assert [exchange.request for exchange in sender.wait(9.0)] == [quick]


class Marker:
    """A context of a request, whose life can be observed."""


def test_finished_requests_are_forgotten_before_their_deadline(sender: BaseTransport, receiver: Receiver) -> None:
    alive: weakref.WeakSet[Marker] = weakref.WeakSet()
    for _ in range(300):
        alive.add(marker := Marker())
        send(sender, post(receiver.url(), context=marker, timeout_seconds=600.0))

    gc.collect()
    assert len(alive) < 100


def in_child(function: Callable[[], bool]) -> bool:
    """Return the result of the function in a forked process."""
    if not (pid := os.fork()):
        try:
            os._exit(0 if function() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
@pytest.mark.parametrize("name", ["native", "requests"])
def test_a_forked_process_leaves_the_connections_to_its_parent(name: str, receiver: Receiver) -> None:
    sender = transport(name)
    for _ in range(2):
        send(sender, post(receiver.url()))
    sender.start(post(receiver.url("/hold"), timeout_seconds=2.0, fresh_connection=True))
    sender.wait(0.3)

    assert in_child(lambda: sender.in_flight == 0 and send(sender, post(receiver.url())).response is not None)
    after = send(sender, post(receiver.url()))
    assert after.response is not None
    connections = [received.connection for received in receiver.requests if received.target == "/ok"]
    assert connections[-1] == connections[1] != connections[-2]
    sender.close()


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_forked_process_inherits_no_open_connection(sender: BaseTransport) -> None:
    ended = threading.Event()

    def answer_and_wait(peer: Peer) -> None:
        peer.read_request()
        peer.send(OK)
        peer.hold()
        ended.set()

    with receiving(act=answer_and_wait) as receiver:
        send(sender, post(receiver.url()))
        reading, writing = os.pipe()
        if not (pid := os.fork()):
            os.close(writing)
            os.read(reading, 1)  # until the parent has closed its end
            os._exit(0)
        sender.close()
        has_ended = ended.wait(20)
        os.close(writing)
        os.close(reading)
        os.waitpid(pid, 0)

    assert has_ended, "The child kept the connection open."


def test_a_transfer_with_a_defect_ends_alone(
    sender: BaseTransport, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webhooks_app.transport.transfer.wire_format", lambda *_: 1 / 0)
    failed = send(sender, post(receiver.url()))
    monkeypatch.undo()

    assert failed.error is not None
    assert failed.error.error_class == "internal_error"
    assert send(sender, post(receiver.url())).response is not None
