"""The views for frameworks, called by the fixture that projects use in their own tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import path
from fastapi import FastAPI
from flask import Flask
from rest_framework.test import APIClient
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient

from webhooks_app import receiver
from webhooks_app.receiver import ReceivedEvent, WebhookSender, signed_request
from webhooks_app.receiver.django import WebhookView
from webhooks_app.receiver.flask import webhook_view
from webhooks_app.receiver.schemes import StandardEd25519Signature, StandardSignature
from webhooks_app.receiver.starlette import webhook_endpoint

SECRET = "whsec_YSBzZWNyZXQgb2YgdGhlIHJlY2VpdmVycyBpbiB0ZXN0cw=="
KEY = StandardEd25519Signature().new_key()
KEYS = [SECRET, StandardEd25519Signature().verification_key(KEY)]
LIMIT = 1000

handled: list[ReceivedEvent] = []
urlpatterns: list[Any] = []

pytestmark = pytest.mark.urls(__name__)


def handle(event: ReceivedEvent) -> None:
    if event.data.get("fails"):
        raise RuntimeError
    handled.append(event)


async def handle_later(event: ReceivedEvent) -> None:
    handle(event)


class AsynchronousHandler:
    """A handler that is no coroutine function, but returns a coroutine."""

    async def __call__(self, event: ReceivedEvent) -> None:
        handle(event)


def of_django(client: Any) -> Any:
    view = WebhookView.as_view(secret=KEYS, handle=handle, max_body_bytes=LIMIT)
    urlpatterns[:] = [path("hooks", view), path("asynchronous", WebhookView.as_view(secret=KEYS, handle=handle_later))]
    return client(enforce_csrf_checks=True, raise_request_exception=False)


def of_flask() -> Any:
    app = Flask(__name__)
    app.post("/hooks")(webhook_view(handle, KEYS, max_body_bytes=LIMIT))
    return app.test_client()


def of_starlette() -> TestClient:
    endpoint = webhook_endpoint(handle, KEYS, max_body_bytes=LIMIT)
    return TestClient(Starlette(routes=[Route("/hooks", endpoint, methods=["POST"])]), raise_server_exceptions=False)


def of_fastapi() -> TestClient:
    app = FastAPI()
    app.post("/hooks")(webhook_endpoint(handle_later, KEYS, max_body_bytes=LIMIT))
    return TestClient(app, raise_server_exceptions=False)


CLIENTS: dict[str, Callable[[], Any]] = {
    "Django": lambda: of_django(Client),
    "Django REST framework": lambda: of_django(APIClient),
    "Flask": of_flask,
    "Starlette": of_starlette,
    "FastAPI": of_fastapi,
}


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest) -> Any:
    handled.clear()
    return CLIENTS[request.param]()


@pytest.fixture
def webhook_secret() -> str:
    return SECRET


def json_of(response: Any) -> Any:
    return response.json if isinstance(response.json, dict) else response.json()


def test_an_event_is_handled_and_confirmed(client: Any, webhook_sender: WebhookSender) -> None:
    response = webhook_sender.send(client, "/hooks", "invoice.paid", {"city": "Köln"})

    assert (response.status_code, json_of(response)) == (200, {"status": "received"})
    assert [(event.type, event.data) for event in handled] == [("invoice.paid", {"city": "Köln"})]


def test_a_handshake_is_answered_and_not_handled(client: Any, webhook_sender: WebhookSender) -> None:
    response = webhook_sender.send_challenge(client, "/hooks", "abc")

    assert (response.status_code, json_of(response), handled) == (200, {"challenge": "abc"}, [])


@pytest.mark.parametrize(
    ("key", "scheme"),
    [
        pytest.param(SECRET, StandardSignature(), id="secret"),
        pytest.param(KEY, StandardEd25519Signature(), id="public key"),
    ],
)
def test_the_signatures_of_standard_webhooks_are_understood(client: Any, key: str, scheme: Any) -> None:
    response = WebhookSender(key, scheme=scheme).send(client, "/hooks", "invoice.paid", {}, event_id="evt_7")

    assert response.status_code == 200
    assert [event.id for event in handled] == ["evt_7"]


def test_a_forged_event_is_refused_with_the_reason(client: Any, caplog: pytest.LogCaptureFixture) -> None:
    response = WebhookSender("another secret").send(client, "/hooks", "invoice.paid", {})

    assert (response.status_code, handled) == (400, [])
    assert "signature does not match" in json_of(response)["error"]
    assert "Refused a request to '/hooks': The signature does not match" in caplog.text


def test_an_old_event_is_refused(client: Any, webhook_sender: WebhookSender) -> None:
    response = webhook_sender.send(client, "/hooks", "invoice.paid", {}, timestamp=1_767_268_800)

    assert (response.status_code, handled) == (400, [])


@pytest.mark.parametrize(("spare", "status"), [(0, 200), (1, 413)])
def test_a_longer_body_than_allowed_is_refused(
    client: Any, webhook_sender: WebhookSender, spare: int, status: int
) -> None:
    length = len(signed_request("invoice.paid", {"pad": ""}, SECRET).body)

    response = webhook_sender.send(client, "/hooks", "invoice.paid", {"pad": "x" * (LIMIT - length + spare)})

    assert response.status_code == status


def test_an_error_of_the_handler_leads_to_a_retry(client: Any, webhook_sender: WebhookSender) -> None:
    response = webhook_sender.send(client, "/hooks", "invoice.paid", {"fails": True})

    assert (response.status_code, handled) == (500, [])


@pytest.mark.parametrize("method", ["get", "put"])
def test_only_post_is_answered(client: Any, method: str) -> None:
    assert getattr(client, method)("/hooks").status_code == 405


def test_a_handler_that_would_never_run_is_refused(webhook_sender: WebhookSender) -> None:
    of_django(Client)

    with pytest.raises(TypeError, match="async_to_sync"):
        webhook_sender.send(Client(), "/asynchronous", "invoice.paid", {})
    with pytest.raises(TypeError, match="asynchronous"):
        webhook_view(handle_later, SECRET)


def test_an_event_is_not_confirmed_if_a_function_returns_a_coroutine_that_nobody_awaits(
    webhook_sender: WebhookSender,
) -> None:
    handled.clear()
    app = Flask(__name__)
    app.post("/hooks")(webhook_view(AsynchronousHandler(), SECRET))

    response = webhook_sender.send(app.test_client(), "/hooks", "invoice.paid", {})

    assert (response.status_code, handled) == (500, [])


def test_a_coroutine_that_a_function_returns_is_awaited(webhook_sender: WebhookSender) -> None:
    handled.clear()
    endpoint = webhook_endpoint(AsynchronousHandler(), SECRET)
    client = TestClient(Starlette(routes=[Route("/hooks", endpoint, methods=["POST"])]))

    response = webhook_sender.send(client, "/hooks", "invoice.paid", {})

    assert (response.status_code, len(handled)) == (200, 1)


@pytest.mark.parametrize("name", ["django", "flask", "starlette"])
def test_a_view_is_short(name: str) -> None:
    assert len((Path(receiver.__file__).parent / f"{name}.py").read_text().splitlines()) < 60
