"""The requests transport with the `responses` library, which hosts use to intercept requests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import requests
import responses

from webhooks_app.transport import BaseTransport, ErrorClass, Response

from .sending import post, send, transport

URL = "https://hooks.example.com/hook?a=1"


@pytest.fixture
def sender() -> Iterator[BaseTransport]:
    made = transport("requests")
    yield made
    made.close()


@responses.activate
def test_a_request_is_intercepted_and_answered(sender: BaseTransport) -> None:
    responses.post(URL, status=200, body=b'{"challenge": "x"}', headers={"X-Answer": "yes"})

    response = send(sender, post(URL, body=b'{"id": "evt_1"}')).response

    assert isinstance(response, Response)
    assert (response.status, response.body) == (200, b'{"challenge": "x"}')
    assert ("X-Answer", "yes") in response.headers
    assert responses.calls[0].request.body == b'{"id": "evt_1"}'
    assert responses.calls[0].request.headers["X-Webhook-Event"] == "ppt.generation.completed"


@responses.activate
def test_a_redirect_is_not_followed(sender: BaseTransport) -> None:
    responses.post(URL, status=302, headers={"Location": "https://other.example.com/"}, body=b"moved")

    response = send(sender, post(URL)).response

    assert response is not None
    assert (response.status, response.body) == (302, b"moved")
    assert len(responses.calls) == 1


@pytest.mark.parametrize(
    ("error", "error_class"),
    [
        (requests.ConnectionError("refused"), ErrorClass.CONNECTION_ERROR),
        (requests.ReadTimeout("late"), ErrorClass.TIMEOUT),
        (requests.ConnectTimeout("late"), ErrorClass.TIMEOUT),
        (requests.exceptions.SSLError("bad certificate"), ErrorClass.TLS_ERROR),
    ],
    ids=lambda value: type(value).__name__,
)
@responses.activate
def test_an_error_of_requests_becomes_an_outcome(
    sender: BaseTransport, error: requests.RequestException, error_class: ErrorClass
) -> None:
    responses.post(URL, body=error)

    exchange = send(sender, post(URL))

    assert exchange.error is not None
    assert exchange.error.error_class is error_class
