"""The in-memory transport for tests."""

from __future__ import annotations

import threading

import pytest

from webhooks_app.transport import ErrorClass, Request, Response, TransportError, TransportOptions, make_transport
from webhooks_app.transport.memory import MemoryTransport

from .sending import post, send, send_all

URL = "https://hooks.example.com/hook"


def test_every_request_is_answered_with_200_and_recorded() -> None:
    sender = MemoryTransport()

    exchange = send(sender, post(URL))

    assert exchange.response == Response(status=200)
    assert sender.requests == [exchange.request]


def test_a_function_answers_each_request() -> None:
    sender = MemoryTransport(answer=lambda request: 200 if request.url.endswith("/a") else 500)

    exchanges = send_all(sender, [post(f"{URL}/a"), post(f"{URL}/b")])

    assert [exchange.response and exchange.response.status for exchange in exchanges] == [200, 500]


def test_the_answer_can_be_an_error() -> None:
    error = TransportError(error_class=ErrorClass.TIMEOUT, message="Too late.")

    exchange = send(MemoryTransport(answer=error), post(URL))

    assert exchange.error == error
    assert exchange.response is None


def test_a_request_without_an_answer_stays_in_flight_until_it_is_completed() -> None:
    sender = MemoryTransport(answer=None)
    request = post(URL)
    sender.start(request)

    assert sender.wait(0.01) == []
    assert (sender.in_flight, sender.held) == (1, [request])

    sender.complete(request, 503)

    assert [exchange.response for exchange in sender.wait(10)] == [Response(status=503)]
    assert (sender.in_flight, sender.held) == (0, [])


def test_a_request_can_be_completed_while_another_thread_waits() -> None:
    sender = MemoryTransport(answer=None)
    request = post(URL)
    sender.start(request)
    threading.Timer(0.05, sender.complete, [request]).start()

    assert len(sender.wait(30.0)) == 1


def test_a_request_cannot_be_completed_twice() -> None:
    sender = MemoryTransport(answer=None)
    request = post(URL)
    sender.start(request)
    sender.complete(request)

    with pytest.raises(ValueError, match="not in flight"):
        sender.complete(request)


def test_the_duration_is_measured_by_the_clock() -> None:
    times = iter([10.0, 12.5])

    assert send(MemoryTransport(clock=lambda: next(times)), post(URL)).duration_seconds == 2.5


def test_a_url_is_checked_as_in_every_transport() -> None:
    exchange = send(make_transport("memory", TransportOptions()), post("https://127.0.0.1/"))

    assert exchange.error is not None
    assert exchange.error.error_class is ErrorClass.ADDRESS_REFUSED


def test_wake_ends_a_wait() -> None:
    sender = MemoryTransport()
    threading.Timer(0.05, sender.wake).start()

    assert sender.wait(30.0) == []


def test_close_abandons_requests_in_flight() -> None:
    sender = MemoryTransport(answer=None)
    sender.start(Request(url=URL, headers=(), body=b"", timeout_seconds=1.0))

    sender.close()

    assert sender.in_flight == 0
    assert sender.wait(0.0) == []
