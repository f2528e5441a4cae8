"""Text from receivers is stored in a valid form on every database, and never prevents recording the outcome."""

from __future__ import annotations

import json

import pytest
from django.db import connection

from webhooks_app.delivery.engine import Engine
from webhooks_app.models import Delivery, DeliveryAttempt

from ..support.rows import emit_one, make_webhook
from ..transport.receiver import receiving

pytestmark = pytest.mark.django_db

HEADER = b"HTTP/1.1 200 OK\r\nConnection: close\r\n"
SCRIPT = "<script>alert(1)</script>"


def ok(*headers: bytes, body: bytes = b"ok") -> bytes:
    return b"".join(
        [HEADER, b"Content-Length: %d\r\n" % len(body), *(line + b"\r\n" for line in headers), b"\r\n", body]
    )


SAID = {
    "nul": (ok(body=b"a\0b\0"), None, "a\ufffdb\ufffd"),
    "not-utf-8": (ok(b"X-Said: \xff\xfe", body=b"\xff\xfe\xc3("), "\xff\xfe", "\ufffd\ufffd\ufffd("),
    "surrogates": (ok(b"X-Said: \xed\xa0\xbf", body=b"\xed\xa0\x80\xed\xb0\x80"), "\xed\xa0\xbf", "\ufffd" * 6),
    "escaped-nul": (ok(b"X-Said: \\u0000", body=b'{"a": "\\u0000\\ud800"}'), "\\u0000", '{"a": "\\u0000\\ud800"}'),
    "four-bytes": (ok(body="\U0001f600\U00010000\U0010ffff".encode()), None, "\U0001f600\U00010000\U0010ffff"),
    "noncharacters": (ok(body="\ufffe\uffff\ufeff\u202e".encode()), None, "\ufffe\uffff\ufeff\u202e"),
    "overlong": (ok(body=b"\xc0\x80\xf5\x80"), None, "\ufffd" * 4),
    "cut-character": (ok(body=b"a" * 16383 + "\U0001f600".encode()), None, "a" * 16383 + "\ufffd"),
    "escapes": (ok(b"X-Said: \x1b]0;t\x07", body=b"\x1b[2J\x9b\x08"), "\ufffd]0;t\ufffd", "\ufffd[2J\ufffd\ufffd"),
    "carriage-return": (ok(b"X-Said: a\rb\tc", body=b"a\r\n\tb"), "a b c", "a\r\n\tb"),
    "script": (ok(b"X-Said: " + SCRIPT.encode(), body=SCRIPT.encode()), SCRIPT, SCRIPT),
    "sql": (ok(b"X-Said: '); DROP TABLE x;--%s{}", body=b"'%s\\'"), "'); DROP TABLE x;--%s{}", "'%s\\'"),
    "charset": (ok(b"X-Said: a", b"Content-Type: text/plain; charset=klingon"), "a", "ok"),
    "long-header": (ok(b"X-Said: " + b"\xe9" * 60_000), "\xe9" * 1000, "ok"),
    "many-headers": (ok(b"X-Said: a", *[b"X-%d: b" % number for number in range(90)]), "a", "ok"),
    "long-body": (ok(body=b"\xff" * 60_000), None, "\ufffd" * 16384),
    "retry-after": (ok(b"Retry-After: \xff" + b"9" * 500, b"X-Said: a"), "a", "ok"),
    "broken-off": (HEADER + b"X-Said: a\r\nContent-Length: 90\r\n\r\n\xf0\x9f", "a", "\ufffd"),
}
"""The received text, and the stored header X-Said and body."""

NOT_STORED_AS_AN_ANSWER = {
    "thousands-of-headers": HEADER + b"X-A: b\xff\r\n" * 4000 + b"\r\n",
    "huge-header": HEADER + b"X-A: " + b"\xff" * 80_000 + b"\r\n\r\n",
    "nul-first": b"\0\xff\xed\xa0\x80" * 100 + b"\n",
    "status-with-nul": b"HTTP/1.1 2\x0000 OK\r\n\r\n",
}


@pytest.fixture(params=["native", "requests"])
def transport_name(request, settings):
    settings.WEBHOOKS_TRANSPORT = request.param
    return request.param


def deliver_to_each(alice, said):
    """Deliver one event to a webhook at each path, and return the first attempts by path."""
    with receiving({f"/{path}": answer for path, answer in said.items()}) as receiver:
        for path in said:
            make_webhook(alice, url=receiver.url(f"/{path}"))
        emit_one(alice)
        Engine().run_until_idle(await_retries=False)
    attempts = DeliveryAttempt.objects.filter(number=1).select_related("delivery")
    return {attempt.url.rpartition("/")[2]: attempt for attempt in attempts}


def test_any_text_in_a_200_response_is_stored_sanitized(alice, transport_name):
    attempts = deliver_to_each(alice, {path: answer for path, (answer, _, _) in SAID.items()})

    stored = {path: (dict(one.response_headers).get("X-Said"), one.response_body) for path, one in attempts.items()}
    assert {path: (header, body) for path, (_, header, body) in SAID.items()} == stored
    assert {(one.result, one.response_status, one.delivery.state) for one in attempts.values()} == {
        ("succeeded", 200, "succeeded")
    }


def test_an_invalid_response_is_stored_as_a_failure(alice, transport_name):
    attempts = deliver_to_each(alice, NOT_STORED_AS_AN_ANSWER)

    assert attempts.keys() == NOT_STORED_AS_AN_ANSWER.keys()
    assert {(one.result, one.response_status) for one in attempts.values()} == {("invalid_response", None)}
    assert attempts["nul-first"].response_body.startswith("\ufffd" * 3)
    assert attempts["thousands-of-headers"].response_body.startswith("HTTP/1.1 200 OK\r\nConnection: close\r\nX-A: b")
    assert all(one.message.isprintable() for one in attempts.values())


def test_a_retry_after_is_stored_and_changes_nothing(alice, transport_name):
    answers = [b"120", b"-1", b"9" * 400, b"\xff\x1b", b"Fri, 31 Dec 1999 23:59:59 GMT", b"<script>"]
    head = b"HTTP/1.1 503 Later\r\nConnection: close\r\nContent-Length: 0\r\nRetry-After: "
    attempts = deliver_to_each(alice, {str(n): head + value + b"\r\n\r\n" for n, value in enumerate(answers)})

    kept = ["120", "-1", "9" * 100, "\xff\ufffd", "Fri, 31 Dec 1999 23:59:59 GMT", "<script>"]
    assert [attempts[str(number)].retry_after for number in range(len(answers))] == kept
    waits = [_wait_of(attempt) for attempt in attempts.values()]
    assert all(0.9 < wait < 100 for wait in waits), waits  # a loaded machine records late


def _wait_of(attempt):
    return (attempt.delivery.due_at - attempt.started_at).total_seconds()


def test_a_nul_in_a_header_does_not_prevent_storing(alice, transport_name):
    said = {"value": ok(b"X-Said: a\0b"), "retry-after": ok(b"Retry-After: \0"), "name": ok(b"\0: a")}

    attempts = deliver_to_each(alice, said)

    assert {(one.result, one.response_status) for one in attempts.values()} == {("succeeded", 200)}
    assert len(attempts) == 3


@pytest.fixture
def latin_bodies(transactional_db):
    """A database with a limited character set, as in old installations."""
    table = connection.ops.quote_name(DeliveryAttempt._meta.db_table)
    change = f"ALTER TABLE {table} MODIFY response_body longtext CHARACTER SET %s NOT NULL"
    with connection.cursor() as cursor:
        cursor.execute(change % "latin1")
        yield
        cursor.execute(f"DELETE FROM {table}")
        cursor.execute(change % "utf8mb4")


@pytest.mark.only_on("mariadb")
def test_a_success_is_stored_without_text_that_the_database_refuses(latin_bodies, alice, transport_name):
    attempts = deliver_to_each(alice, {"smile": SAID["four-bytes"][0], "plain": ok()})

    assert {path: (one.result, one.response_status) for path, one in attempts.items()} == {
        "smile": ("succeeded", 200),
        "plain": ("succeeded", 200),
    }
    assert Delivery.objects.filter(kind="event", state="succeeded").count() == 2


@pytest.mark.only_on("postgresql")
def test_the_log_contains_no_text_of_an_unrecordable_attempt(alice, transport_name, caplog):
    table = connection.ops.quote_name(DeliveryAttempt._meta.db_table)
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} ADD CONSTRAINT nothing_succeeds CHECK (result <> 'succeeded')")

    deliver_to_each(alice, {"said": ok(b"X-Said: Sesame", body=b"Sesame")})

    (logged,) = [record for record in caplog.records if "could not be recorded" in record.message]
    assert " could not be recorded: IntegrityError, SQLSTATE 23514 in " in logged.message
    assert Delivery.objects.get(kind="event").id in logged.message
    assert "Sesame" not in caplog.text


def test_the_stored_headers_are_valid_json(alice, transport_name):
    attempts = deliver_to_each(alice, {path: answer for path, (answer, _, _) in SAID.items()})

    for attempt in attempts.values():
        assert json.loads(json.dumps(attempt.response_headers)) == attempt.response_headers
        assert len(attempt.response_headers) <= 100
        assert "\0" not in attempt.response_body + attempt.retry_after
