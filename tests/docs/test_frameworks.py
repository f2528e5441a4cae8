"""The receivers for web frameworks on the page for integrators, called with requests of the frameworks.

Flask's request is werkzeug's. Flask and FastAPI themselves are not installed; stand-ins register the view.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Mapping
from email.message import Message as Headers
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from django.test import RequestFactory
from werkzeug.test import EnvironBuilder

from webhooks_app.signatures import Message, NativeSignature

from .test_vectors import code_under

SECRET = "a shared secret of the tests"
VERIFICATION = {"type": "webhook.verification", "data": {"challenge": "c1"}}
EVENT = {"id": "evt_1", "type": "invoice.paid", "data": {"city": "Köln"}}
REFUSED = {"error": "The signature does not match."}

Answer = tuple[int, Any]
Call = Callable[[bytes, Mapping[str, str]], Answer]


def view_under(heading: str) -> Callable[..., Any]:
    """Return the view of a section, with the function of the section Python before it."""
    names: dict[str, Any] = {"__name__": "receiver"}
    exec(code_under("Python").partition("class Receiver")[0] + code_under(heading), names)
    view: Callable[..., Any] = names["receive"]
    return view


def framework(monkeypatch: pytest.MonkeyPatch, name: str, **names: Any) -> None:
    """Put a stand-in for a framework in the place of its module."""
    module = ModuleType(name)
    module.__dict__.update(names)
    monkeypatch.setitem(sys.modules, name, module)


def app(*arguments: Any) -> SimpleNamespace:
    return SimpleNamespace(post=lambda path: lambda view: view)


def in_django(monkeypatch: pytest.MonkeyPatch) -> Call:
    view = view_under("Django")

    def call(body: bytes, headers: Mapping[str, str]) -> Answer:
        request = RequestFactory().post("/hooks", body, content_type="application/json", headers=dict(headers))
        answer = view(request)
        return answer.status_code, json.loads(answer.content)

    return call


def in_flask(monkeypatch: pytest.MonkeyPatch) -> Call:
    def call(body: bytes, headers: Mapping[str, str]) -> Answer:
        request = EnvironBuilder(method="POST", data=body, headers=dict(headers)).get_request()
        framework(monkeypatch, "flask", Flask=app, request=request)
        answer = view_under("Flask")()
        return (answer[1], answer[0]) if isinstance(answer, tuple) else (200, answer)

    return call


def in_fastapi(monkeypatch: pytest.MonkeyPatch) -> Call:
    framework(monkeypatch, "fastapi", FastAPI=app, Request=object)
    framework(monkeypatch, "fastapi.responses", JSONResponse=lambda content, status_code: (status_code, content))
    view = view_under("FastAPI")

    def call(body: bytes, headers: Mapping[str, str]) -> Answer:
        async def read() -> bytes:
            return body

        insensitive = Headers()
        for name, value in headers.items():
            insensitive[name] = value
        answer = asyncio.run(view(SimpleNamespace(headers=insensitive, body=read)))
        return answer if isinstance(answer, tuple) else (200, answer)

    return call


@pytest.mark.parametrize("receiver_in", [in_django, in_flask, in_fastapi], ids=lambda each: each.__name__)
@pytest.mark.parametrize(
    ("content", "secret", "answer"),
    [
        pytest.param(VERIFICATION, SECRET, (200, {"challenge": "c1"}), id="verification"),
        pytest.param(EVENT, SECRET, (200, {}), id="event"),
        pytest.param(EVENT, "another secret", (400, REFUSED), id="another secret"),
    ],
)
def test_the_receiver_of_a_framework_answers(
    monkeypatch: pytest.MonkeyPatch,
    receiver_in: Callable[[pytest.MonkeyPatch], Call],
    content: Mapping[str, Any],
    secret: str,
    answer: Answer,
) -> None:
    monkeypatch.setenv("WEBHOOK_SECRET", SECRET)
    body = json.dumps(content, ensure_ascii=False).encode()
    scheme, message = NativeSignature(), Message("evt_1", content["type"], int(time.time()), body)
    headers = dict(scheme.headers(message, scheme.sign(message, [secret])))

    assert receiver_in(monkeypatch)(body, headers) == answer
