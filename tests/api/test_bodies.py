"""Hostile request bodies."""

from __future__ import annotations

import asyncio
import io
import json
import time

import pytest
from asgiref.sync import async_to_sync
from django.core.asgi import get_asgi_application
from django.core.signals import request_finished, request_started
from django.db import close_old_connections
from django.urls import resolve

from tests.support.rows import EVENT_TYPE, URL, make_webhook
from webhooks_app.models import Webhook

from .conftest import PROBLEM

pytestmark = [pytest.mark.django_db, pytest.mark.only_on("sqlite")]

NEW = {"url": URL, "events": [EVENT_TYPE]}


def text(**fields):
    return json.dumps({**NEW, **fields})


def nested(levels):
    return '{"a":' * levels + "1" + "}" * levels


@pytest.fixture(autouse=True)
def _within_a_second():
    """CPU time of this thread, so that the test does not fail on a busy machine."""
    resolve("/v1/webhooks")
    started = time.thread_time()
    yield
    assert time.thread_time() - started < 1


@pytest.mark.parametrize(
    ("body", "field"),
    [
        pytest.param(text(description="a\0b"), "description", id="NUL"),
        pytest.param(text(extra="a\0b"), "extra", id="NUL in a field that nothing reads"),
        pytest.param('{"a": {"b": [1, "\\u0000"]}}', "a.b[1]", id="NUL deep inside"),
        pytest.param('{"a\\u0000b": 1}', "non_field_errors", id="NUL in a name"),
        pytest.param('{"a": {"\\ud800": 1}}', "a", id="lone surrogate in a name"),
        pytest.param(text(description="\ud800"), "description", id="lone high surrogate"),
        pytest.param(text(url="http://\udc00"), "url", id="lone low surrogate"),
        pytest.param(text(events=["\ud800"]), "events[0]", id="lone surrogate in a list"),
        pytest.param('{"a": 1e999}', "a", id="infinite number"),
        pytest.param('{"a": ' + "9" * 310 + "}", "a", id="integer beyond a double"),
    ],
)
def test_a_value_that_cannot_be_stored_is_named(api, body, field):
    answer = api.call("POST", "/v1/webhooks", body.encode())

    assert (answer.status_code, answer["Content-Type"]) == (400, PROBLEM)
    assert list(answer.json()["errors"]) == [field]


def test_a_list_that_is_too_long_causes_one_error(api):
    answer = api.call("POST", "/v1/webhooks", {**NEW, "events": list(range(9000))})

    assert answer.status_code == 400
    assert answer.json()["errors"] == {"events": ["Ensure this field has no more than 64 elements."]}


def test_a_surrogate_pair_is_one_character(api):
    assert api.call("POST", "/v1/webhooks", text(description="🔑").encode()).json()["description"] == "🔑"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        pytest.param(b"{", "not JSON", id="cut off"),
        pytest.param(b" ", "not JSON", id="blank"),
        pytest.param(b"{'url': 1}", "not JSON", id="single quotes"),
        pytest.param(b'{"a": 1,}', "not JSON", id="comma at the end"),
        pytest.param(b'{"a": 1} {"a": 1}', "not JSON", id="two objects"),
        pytest.param(b'{"a": "\n"}', "not JSON", id="raw control character"),
        pytest.param(b"\xef\xbb\xbf{}", "not JSON", id="byte order mark"),
        pytest.param(b'{"a": NaN}', "NaN is not a JSON number", id="NaN"),
        pytest.param(b'{"a": -Infinity}', "-Infinity is not a JSON number", id="Infinity"),
        pytest.param(b'{"a": ' + b"9" * 5000 + b"}", "more than 320 digits", id="5,000 digits"),
        pytest.param(b'{"a": -' + b"9" * 60000 + b"}", "more than 320 digits", id="60,000 digits"),
        pytest.param(b'{"url": "x", "url": "y"}', "a key twice", id="a key twice"),
        pytest.param(b"[]", "not an object", id="array"),
        pytest.param(b'"x"', "not an object", id="string"),
        pytest.param(b"null", "not an object", id="null"),
        pytest.param(nested(5000).encode(), "nested deeper than 32 levels", id="5,000 objects"),
        pytest.param(b"[" * 60000 + b"]" * 5000, "", id="60,000 brackets"),
        pytest.param(nested(33).encode(), "nested deeper than 32 levels", id="33 levels"),
        pytest.param(b'{"a": "\xff"}', "not valid UTF-8 from byte 7 on", id="not UTF-8"),
        pytest.param(b'{"a": "\xc0\x80"}', "not valid UTF-8", id="overlong NUL"),
        pytest.param(b'{"a": "\xed\xa0\x80"}', "not valid UTF-8", id="encoded surrogate"),
    ],
)
def test_a_body_other_than_a_json_object_is_refused(api, body, problem):
    answer = api.call("POST", "/v1/webhooks", body)

    assert (answer.status_code, answer["Content-Type"]) == (400, PROBLEM)
    assert problem in answer.text


def test_32_levels_of_nesting_are_accepted(api):
    inner = json.loads(nested(31))

    answer = api.call("POST", "/v1/webhooks", {**NEW, "extra": inner})

    (message,) = answer.json()["errors"]["extra"]
    assert message.startswith("Unknown field.")


@pytest.mark.parametrize(
    "content_type",
    [
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "text/plain",
        "text/json",
        "application/xml",
        "application/vnd.api+json",
        "application/octet-stream",
        "json",
        "",
        "*/*",
        "application/*",
        "*/*;" + "x" * 300,
        "application/json; charset=utf-16",
        "application/json; charset=latin-1",
        "application/json; charset=base64",
        "application/json; charset=no-such",
    ],
)
@pytest.mark.parametrize("path", ["/v1/webhooks", "/v1/webhooks/{webhook}/verify"])
def test_only_json_in_utf_8_is_accepted(api, alice, path, content_type):
    webhook = make_webhook(alice)
    body = text().encode("utf-16" if "utf-16" in content_type else "utf-8")

    answer = api.call("POST", path.format(webhook=webhook.id), body, **{"content-type": content_type})

    assert (answer.status_code, answer["Content-Type"]) == (415, PROBLEM)
    assert Webhook.objects.count() == 1


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
def test_an_undeclared_encoding_is_detected(api, encoding):
    assert api.call("POST", "/v1/webhooks", text().encode(encoding)).status_code == 415


def test_the_content_type_is_case_insensitive(api):
    assert api.call("POST", "/v1/webhooks", NEW, **{"content-type": "Application/JSON"}).status_code == 201


@pytest.mark.parametrize("charset", ["utf-8", "UTF-8", '"utf-8"', "utf8"])
def test_utf_8_may_be_declared(api, charset):
    answer = api.call("POST", "/v1/webhooks", NEW, **{"content-type": f"application/json; charset={charset}"})

    assert answer.status_code == 201


def padded(size):
    body = text().encode()
    return body + b" " * (size - len(body))


def test_64_kib_are_accepted(api):
    assert api.call("POST", "/v1/webhooks", padded(64 * 1024)).status_code == 201


@pytest.mark.parametrize("size", [64 * 1024 + 1, 3_000_000])
def test_more_than_64_kib_are_refused(api, size):
    answer = api.call("POST", "/v1/webhooks", padded(size))

    assert (answer.status_code, answer["Content-Type"]) == (413, PROBLEM)
    assert "65,536 bytes" in answer.json()["detail"]


class Unending:
    """A body without an end."""

    given = 0

    def read(self, size=-1):
        assert size > 0, "read to an end that never comes"
        self.given += size
        return b"x" * size

    def readline(self, size=-1):
        raise AssertionError("A body has no lines.")


def chunked(api, path, stream, *, is_decoded=True):
    """Post a body without a length, like a WSGI server that decodes chunks or like one that does not."""
    environ = {"wsgi.input": stream, "CONTENT_TYPE": "application/json", "CONTENT_LENGTH": ""}
    api.defaults.update(environ, **({"wsgi.input_terminated": True} if is_decoded else {}))
    return api.call("POST", path, **{"transfer-encoding": "chunked"})


def test_a_chunked_body_is_read_if_the_server_marks_its_end(api):
    assert chunked(api, "/v1/webhooks", io.BytesIO(text().encode())).status_code == 201


@pytest.mark.parametrize("path", ["/v1/webhooks", "/v1/webhooks/test"])
def test_a_chunked_body_is_read_up_to_the_limit(api, path):
    body = Unending()

    answer = chunked(api, path, body)

    assert (answer.status_code, answer["Content-Type"]) == (413, PROBLEM)
    assert body.given == 64 * 1024 + 1


def test_a_chunked_body_without_a_marked_end_is_refused_unread(api):
    body = Unending()

    answer = chunked(api, "/v1/webhooks", body, is_decoded=False)

    assert (answer.status_code, answer["Content-Type"], body.given) == (411, PROBLEM, 0)


class Failing(io.RawIOBase):
    """The body of a server that raises this error while it is read."""

    def __init__(self, error):
        self.error = error

    def read(self, size=-1):
        raise self.error


ERRORS_OF_SERVERS = [OSError("reset"), EOFError(), ValueError("zz"), RuntimeError(), AssertionError(), TypeError()]


@pytest.mark.parametrize("error", ERRORS_OF_SERVERS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("length", ["", "100"], ids=["chunks", "length"])
def test_any_error_of_a_server_while_reading_is_a_400(api, error, length):
    environ = {"wsgi.input": Failing(error), "CONTENT_TYPE": "application/json", "wsgi.input_terminated": True}
    api.defaults.update(environ, CONTENT_LENGTH=length)

    answer = api.call("POST", "/v1/webhooks", **({} if length else {"transfer-encoding": "chunked"}))

    assert (answer.status_code, answer["Content-Type"]) == (400, PROBLEM)
    assert answer.json()["detail"].startswith("The body ended too early, or its chunks are invalid.")


@pytest.mark.parametrize("length", ["abc", "-1", "+2", "1_0", "2, 2", "\u0662", "9" * 400], ids=ascii)
def test_an_invalid_length_that_a_server_passes_on_is_a_400(api, length):
    api.defaults.update({"wsgi.input": io.BytesIO(b"{}"), "CONTENT_TYPE": "application/json", "CONTENT_LENGTH": length})

    answer = api.call("POST", "/v1/webhooks")

    assert (answer.status_code, answer["Content-Type"]) in ((400, PROBLEM), (413, PROBLEM))


def over_asgi(key, body):
    """Post a body in two parts, without a length, to the ASGI application; return status and content type."""
    parts = [
        {"type": "http.request", "body": body[:100], "more_body": True},
        {"type": "http.request", "body": body[100:], "more_body": False},
    ]
    sent = []

    async def receive():
        return parts.pop(0) if parts else await asyncio.Event().wait()

    async def send(message):
        sent.append(message)

    headers = {"host": "testserver", "content-type": "application/json", "authorization": f"Bearer {key}"}
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/webhooks",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    async_to_sync(get_asgi_application())(scope, receive, send)
    return sent[0]["status"], dict(sent[0]["headers"])[b"Content-Type"].decode()


@pytest.fixture
def kept_connection():
    """Prevent requests from closing the test's connection, as Django's own test client does."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


def test_a_body_without_a_length_is_read_from_an_asgi_server(api, kept_connection):
    assert over_asgi(api.key, text().encode()) == (201, "application/json")
    assert over_asgi(api.key, padded(64 * 1024 + 1)) == (413, PROBLEM)
    assert over_asgi(api.key, b"") == (400, PROBLEM)


def test_every_operation_limits_its_body(api, alice):
    path = f"/v1/webhooks/{make_webhook(alice).id}"

    assert api.call("PATCH", path, padded(70_000)).status_code == 413
    assert api.call("POST", f"{path}/disable", padded(70_000)).status_code == 413


def test_an_operation_without_a_body_needs_no_content_type(api, alice):
    webhook = make_webhook(alice)

    answer = api.call("POST", f"/v1/webhooks/{webhook.id}/disable", **{"content-type": ""})

    assert answer.status_code == 200


def test_an_empty_body_lacks_every_field(api):
    answer = api.call("POST", "/v1/webhooks")

    assert (answer.status_code, set(answer.json()["errors"])) == (400, {"url", "events"})
