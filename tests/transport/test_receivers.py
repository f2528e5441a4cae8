"""Misbehaving receivers: one row per misbehavior, identical for every real transport."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from random import Random
from unittest.mock import patch

import pytest

from webhooks_app.transport import Exchange, Response, TransportError, errors
from webhooks_app.transport.answer import NO_STATUS_LINE, TOO_LARGE
from webhooks_app.transport.base import RECEIVED_KEPT
from webhooks_app.transport.connections import SocketPoller

from ..support.waiting import wait_until
from .conftest import REAL
from .receiver import OK, Mode, Peer, Receiver, receiving
from .sending import post, send_all, transport

SHORT_SECONDS = 3.0
LONG_SECONDS = 20.0
HEADER = b"HTTP/1.1 200 OK\r\nConnection: close\r\n"
CLOSING_OK = HEADER + b"Content-Length: 2\r\n\r\nok"
GZIP = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03"


def reset_after_a_flood_of_100(peer: Peer) -> None:
    peer.send(b"HTTP/1.1 100 Continue\r\n\r\n" * 3000)
    peer.wait_until_delivered()
    time.sleep(0.2)
    peer.reset()


def then(data: bytes, act: str, *arguments: bytes) -> Mode:
    """Return a mode that sends data and then calls this method of ``Peer``."""

    def mode(peer: Peer) -> None:
        peer.send(data)
        getattr(peer, act)(*arguments)

    return mode


def status(line: str, *headers: str, body: bytes = b"") -> bytes:
    head = "\r\n".join([f"HTTP/1.1 {line}", "Connection: close", f"Content-Length: {len(body)}", *headers, "", ""])
    return head.encode("latin-1") + body


NEVER_ANSWER: dict[str, Mode | bytes] = {
    "silent": lambda peer: peer.hold(),
    "drips-the-status-line": lambda peer: peer.drip(b"HTTP/1.1 200 " + b"O" * 1000),
    "drips-headers": then(HEADER, "drip", b"X-Header: " + b"a" * 1000),
    "never-ends-the-header": then(HEADER + b"Content-Length: 0\r\n", "hold"),
    "holds-after-a-header-with-nul": then(HEADER + b"X-Nul: a\0b\r\n", "hold"),
    "endless-100": lambda peer: peer.drip(b"HTTP/1.1 100 Continue\r\n\r\n", 0.001),
    "flood-of-100": lambda peer: peer.flood(b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
    "silent-after-100": then(b"HTTP/1.1 100 Continue\r\n\r\n", "hold"),
    "drips-after-103": then(b"HTTP/1.1 103 Early Hints\r\n\r\n", "drip", b"HTTP/1.1 200 " + b"O" * 1000),
    "stops-before-the-last-line-feed": then(HEADER + b"Content-Length: 0\r\n\r", "hold"),
    "holds-after-a-line-without-colon": then(HEADER + b"nonsense\r\n", "hold"),
    "holds-after-an-odd-content-length": then(HEADER + b"Content-Length: abc\r\n", "hold"),
    "holds-after-an-unknown-coding": then(HEADER + b"Transfer-Encoding: klingon\r\n", "hold"),
    "holds-after-the-status-line": then(b"HTTP/1.1 200 OK\r\n", "hold"),
    "holds-after-bytes-of-another-protocol": then(HEADER + b"\x00\x00\x12\x04\x00\r\n", "hold"),
    "holds-in-the-status-line": then(b"HTTP/1.", "hold"),
    "flood-of-103": lambda peer: peer.flood(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"),
    "resets-after-a-flood-of-100": reset_after_a_flood_of_100,
}

NEVER_END_THE_BODY: dict[str, Mode | bytes] = {
    "drips-the-body": then(HEADER + b"\r\n", "drip", b"body"),
    "drips-chunks": then(HEADER + b"Transfer-Encoding: chunked\r\n\r\n", "drip", b"1\r\nx\r\n"),
    "drips-a-chunk-size": then(HEADER + b"Transfer-Encoding: chunked\r\n\r\n", "drip", b"0000"),
    "holds-in-a-chunk": then(HEADER + b"Transfer-Encoding: chunked\r\n\r\nff\r\nx", "hold"),
    "silent-without-a-length": then(HEADER + b"\r\n", "hold"),
    "silent-after-the-header": then(HEADER + b"Content-Length: 10\r\n\r\n", "hold"),
    "holds-in-a-chunk-s-extension": then(HEADER + b"Transfer-Encoding: chunked\r\n\r\n2;ok", "hold"),
    "endless-trailer": then(HEADER + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", "drip", b"X-T: a\r\n"),
}

ANSWER_200: dict[str, Mode | bytes] = {
    **NEVER_END_THE_BODY,
    "plain": OK,
    "without-reason": b"HTTP/1.1 200\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
    "http-1.0": b"HTTP/1.0 200 OK\r\n\r\nok",
    "line-feeds-only": b"HTTP/1.1 200 OK\nConnection: close\nContent-Length: 2\n\nok",
    "endless-body": then(HEADER + b"\r\n", "flood", b"x" * 65536),
    "endless-chunks": then(
        HEADER + b"Transfer-Encoding: chunked\r\n\r\n", "flood", b"1000\r\n" + b"x" * 4096 + b"\r\n"
    ),
    "huge-body": then(HEADER + b"Content-Length: 1000000000\r\n\r\n", "flood", b"x" * 65536),
    "gzip-bomb": then(HEADER + b"Content-Encoding: gzip\r\n\r\n" + GZIP, "flood", b"\0" * 65536),
    "endless-chunk-size": then(HEADER + b"Transfer-Encoding: chunked\r\n\r\n", "flood", b"0" * 4096),
    "endless-chunk-extension": then(HEADER + b"Transfer-Encoding: chunked\r\n\r\n1;", "flood", b"a" * 4096),
    "flood-of-trailers": then(HEADER + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", "flood", b"X-T: a\r\n" * 512),
    "deflate-bomb": then(HEADER + b"Content-Encoding: deflate\r\n\r\n", "flood", b"\0" * 65536),
    "brotli-that-is-none": status("200 OK", "Content-Encoding: br", body=b"not brotli"),
    "unknown-content-encoding": status("200 OK", "Content-Encoding: klingon", body=b"ok"),
    "broken-gzip": status("200 OK", "Content-Encoding: gzip", body=b"not gzip"),
    "broken-chunks": HEADER + b"Transfer-Encoding: chunked\r\n\r\nzzz\r\n",
    "negative-chunk": HEADER + b"Transfer-Encoding: chunked\r\n\r\n-2\r\nok\r\n0\r\n\r\n",
    "huge-chunk": HEADER + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 32 + b"\r\nok",
    "chunk-longer-than-announced": HEADER + b"Transfer-Encoding: chunked\r\n\r\n2\r\nokay\r\n0\r\n\r\n",
    "chunks-end-early": HEADER + b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
    "resets-in-a-chunk": then(HEADER + b"Transfer-Encoding: chunked\r\n\r\nff\r\nx", "reset"),
    "chunks-and-a-length": HEADER + b"Content-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "chunked-twice": HEADER + b"Transfer-Encoding: chunked, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "resets-after-the-header": then(HEADER + b"Content-Length: 2\r\n\r\n", "reset"),
    "closes-its-sending-side": then(CLOSING_OK, "stop_sending"),
    "closes-its-receiving-side": then(b"", "stop_receiving_and_answer", CLOSING_OK),
    "ends-early": HEADER + b"Content-Length: 100\r\n\r\nshort",
    "resets-in-the-body": then(HEADER + b"Content-Length: 100\r\n\r\nshort", "reset"),
    "says-more-than-announced": HEADER + b"Content-Length: 2\r\n\r\nok and more",
    "odd-content-length": HEADER + b"Content-Length: many\r\n\r\nok",
    "negative-content-length": HEADER + b"Content-Length: -1\r\n\r\nok",
    "huge-content-length": HEADER + b"Content-Length: " + b"9" * 40 + b"\r\n\r\nok",
    "empty-content-length": HEADER + b"Content-Length:\r\n\r\nok",
    "content-length-list": HEADER + b"Content-Length: 2, 2\r\n\r\nok",
    "same-content-length-twice": HEADER + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\nok",
    "two-content-lengths": HEADER + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nok",
    "unknown-transfer-encoding": HEADER + b"Transfer-Encoding: gzip\r\n\r\nok",
    "holds-after-chunks-of-another-coding": then(
        HEADER + b"Transfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "hold"
    ),
    "after-100": b"HTTP/1.1 100 Continue\r\n\r\n" + CLOSING_OK,
    "after-102": b"HTTP/1.1 102 Processing\r\n\r\n" + CLOSING_OK,
    "after-103": b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n" + CLOSING_OK,
    "after-three-interim-answers": b"HTTP/1.1 100 C\r\n\r\nHTTP/1.1 102 P\r\n\r\nHTTP/1.1 103 E\r\n\r\n" + CLOSING_OK,
    "nul-in-a-header": status("200 OK", "X-Nul: a\0b", body=b"ok"),
    "nul-in-the-body": status("200 OK", body=b"a\0b"),
    "not-utf-8": status("200 OK", "X-Bytes: \xff\xfe", body=b"\xff\xfe\xc3("),
    "unknown-charset": status("200 OK", "Content-Type: text/plain; charset=klingon", body=b"ok"),
    "terminal-escapes": status("200 \x1b[31mOK", "X-Colour: \x1b]0;title\x07", body=b"\x1b[2J"),
    "script": status("200 OK", "X-Script: <script>alert(1)</script>", body=b"<script>alert(1)</script>"),
    "escapes-in-a-header-name": status("200 OK", "X-\x1b[31m: a", body=b"ok"),
    "nul-in-a-header-name": status("200 OK", "X-\0: a", body=b"ok"),
    "folded-header": status("200 OK", "X-Folded: a\r\n b\r\n\tc", body=b"ok"),
    "folded-before-any-header": b"HTTP/1.1 200 OK\r\n folded\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
    "space-before-the-colon": status("200 OK", "X-Space : a", body=b"ok"),
    "header-without-a-name": status("200 OK", ": nameless", body=b"ok"),
    "carriage-return-in-a-header": status("200 OK", "X-Return: a\rb", body=b"ok"),
    "unknown-multi-byte-charset": status("200 OK", "Content-Type: text/html; charset=utf-7", body=b"+ADw-script+AD4-"),
    "lone-surrogates": status("200 OK", body=b"\xed\xa0\x80"),
    "four-byte-characters": status("200 OK", "X-Smile: \xf0\x9f\x98\x80", body="\U0001f600".encode()),
    "cookies": status("200 OK", *(f"Set-Cookie: a{number}=b" for number in range(50)), body=b"ok"),
    "authenticate": status("200 OK", "WWW-Authenticate: Negotiate", "WWW-Authenticate: NTLM", body=b"ok"),
    "alt-svc": status("200 OK", 'Alt-Svc: h3=":443"; ma=9999', "Strict-Transport-Security: max-age=9999", body=b"ok"),
    "upgrade": status("200 OK", "Upgrade: h2c", "Connection: Upgrade", body=b"ok"),
    "location": status("200 OK", "Location: http://169.254.169.254/", body=b"ok"),
    "header-line-without-colon": HEADER + b"nonsense\r\nContent-Length: 2\r\n\r\nok",
    "100-header-lines": b"HTTP/1.1 200 OK\r\nConnection: close\r\n" + b"X-A: b\r\n" * 99 + b"\r\n",
    "bytes-of-another-protocol-in-the-header": HEADER + b"\x00\x00\x12\x04\x00\r\n\r\nok",
    "refresh-header": status("200 OK", "Refresh: 0; url=http://169.254.169.254/", body=b"ok"),
}

OTHER_STATUSES: dict[str, tuple[int, Mode | bytes]] = {
    "101": (101, then(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", "hold")),
    **{
        str(code): (code, status(f"{code} Status"))
        for code in (201, 202, 206, 400, 401, 403, 404, 405, 407, 408, 409, 413, 417, 421, 425, 451, 500, 502, 504, 999)
    },
    "204": (204, b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"),
    "304": (304, b"HTTP/1.1 304 Not Modified\r\nConnection: close\r\n\r\n"),
    "410": (410, status("410 Gone", "Retry-After: 120")),
    "429": (429, status("429 Too Many Requests", "Retry-After: -1")),
    "503": (503, status("503 Unavailable", f"Retry-After: {10**20}")),
}

LOSE_THE_CONNECTION: dict[str, Mode | bytes] = {
    "closes-at-once": b"",
    "resets-at-once": lambda peer: peer.reset(),
    "closes-in-the-status-line": b"HTTP/1.1 200",
    "closes-after-the-status-line": HEADER,
    "closes-in-a-header": HEADER + b"Content-Length: 2\r\nX-Hea",
    "closes-after-a-header-with-nul": HEADER + b"X-Nul: a\0b\r\n",
    "closes-before-the-blank-line": HEADER + b"Content-Length: 0\r\n",
    "closes-in-the-blank-line": HEADER + b"Content-Length: 0\r\n\r",
    "resets-in-the-header": then(HEADER + b"Content-Length: 2\r\n", "reset"),
    "closes-its-sending-side-at-once": lambda peer: peer.stop_sending(),
    "resets-in-the-status-line": then(b"HTTP/1.1 2", "reset"),
    "closes-after-100": b"HTTP/1.1 100 Continue\r\n\r\n",
    "closes-after-a-line-without-colon": HEADER + b"nonsense\r\n",
    "closes-after-an-odd-content-length": HEADER + b"Content-Length: abc\r\n",
    "closes-after-an-unknown-coding": HEADER + b"Transfer-Encoding: klingon\r\n",
    "closes-after-bytes-of-another-protocol": HEADER + b"\x00\x00\x12\x04\x00\r\n",
    "closes-in-the-version": b"HTTP/1.",
    "closes-in-the-status": b"HTTP/1.1 20",
    "closes-in-the-answer-after-100": b"HTTP/1.1 100 Continue\r\n\r\n" + HEADER,
}

ANSWER_NONSENSE: dict[str, Mode | bytes] = {
    "ssh-banner": b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n",
    "smtp-banner": b"220 mail.example.com ESMTP\r\n",
    "http-1.2": b"HTTP/1.2 200 OK\r\nContent-Length: 0\r\n\r\n",
    "http-11": b"HTTP/11 200 OK\r\n\r\n",
    "lower-case-http": b"http/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "shoutcast": b"ICY 200 OK\r\n\r\n",
    "leading-space": b" HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "two-spaces": b"HTTP/1.1  200 OK\r\nContent-Length: 0\r\n\r\n",
    "tab": b"HTTP/1.1\t200 OK\r\nContent-Length: 0\r\n\r\n",
    "nul-first": b"\0HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "byte-order-mark": b"\xef\xbb\xbfHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "status-minus-200": b"HTTP/1.1 -200 OK\r\n\r\n",
    "status-hex": b"HTTP/1.1 0xC8 OK\r\n\r\n",
    "status-fullwidth": "HTTP/1.1 \uff12\uff10\uff10 OK\r\n\r\n".encode(),
    "a-request": b"POST / HTTP/1.1\r\nHost: a\r\n\r\n",
    "tls-alert": b"\x15\x03\x03\x00\x02\x02\x28\n",
    "redis-error": b"-ERR unknown command\r\n",
    "garbage": b"\x00\x01\x02\xff\xfe\n" * 10,
    "http-0.9": b"<html>hello</html>\n",
    "http-0.9-and-silence": then(b"<html>hello</html>", "hold"),
    "garbage-without-a-line-end": then(b"\x00\x01\x02\xff\xfe" * 10, "hold"),
    "ssh-banner-and-silence": then(b"SSH-2.0-OpenSSH_9.2p1", "hold"),
    "http-2-settings": then(b"\x00\x00\x12\x04\x00\x00\x00\x00\x00" + b"\x00\x03\x00\x00\x00\x80" * 3, "hold"),
    "http-2-goaway": b"\x00\x00\x08\x07\x00\x00\x00\x00\x00" + b"\x00" * 8,
    "http-3-of-the-future": then(b"HTTP/3 200", "hold"),
    "101-header-lines": HEADER + b"X-A: b\r\n" * 100 + b"\r\n",
    "http-2-preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "http-2-status-line": b"HTTP/2 200 OK\r\n\r\n",
    "status-abc": b"HTTP/1.1 abc OK\r\n\r\n",
    "status-000": b"HTTP/1.1 000 OK\r\n\r\n",
    "status-099": b"HTTP/1.1 099 OK\r\n\r\n",
    "status-20": b"HTTP/1.1 20 OK\r\n\r\n",
    "status-0200": b"HTTP/1.1 0200 OK\r\n\r\n",
    "status-200.0": b"HTTP/1.1 200.0 OK\r\n\r\n",
    "status-beyond-32-bits": b"HTTP/1.1 4294967496 OK\r\n\r\n",
    "two-statuses": b"HTTP/1.1 200, 500 OK\r\n\r\n",
    "nul-in-the-reason": b"HTTP/1.1 200 O\0K\r\nConnection: close\r\n\r\n",
    "carriage-return-in-the-reason": b"HTTP/1.1 200 O\rK\r\nConnection: close\r\n\r\n",
    "a-body-after-100": b"HTTP/1.1 100 Continue\r\nContent-Length: 5\r\n\r\nhello" + CLOSING_OK,
    "http-1.10": b"HTTP/1.10 200 OK\r\n\r\n",
    "status-2000": b"HTTP/1.1 2000 OK\r\n\r\n",
    "status-plus-200": b"HTTP/1.1 +200 OK\r\n\r\n",
    "status-glued": b"HTTP/1.1 200OK\r\n\r\n",
    "no-version": b"HTTP/ 200 OK\r\n\r\n",
    "blank-line-first": b"\r\n" + CLOSING_OK,
    "nonsense-after-100": b"HTTP/1.1 100 Continue\r\n\r\nHELLO\r\n\r\n",
    "thousands-of-headers": HEADER + b"X-A: b\r\n" * 4000 + b"\r\n",
    "70-kb-header": HEADER + b"X-A: " + b"a" * 70_000 + b"\r\n\r\n",
    "endless-header": then(HEADER + b"X-A: ", "flood", b"a" * 4096),
    "endless-headers": then(HEADER, "flood", b"X-A: b\r\n" * 512),
    "endless-status-line": then(b"HTTP/1.1 200 ", "flood", b"a" * 4096),
}

FLOODS = [
    *("endless-body", "endless-chunks", "huge-body", "gzip-bomb", "deflate-bomb", "endless-chunk-size"),
    *("endless-chunk-extension", "flood-of-trailers", "endless-header", "endless-headers", "endless-status-line"),
    *("flood-of-100", "flood-of-103"),
]
IN_THE_BUFFERS_OF_BOTH_SYSTEMS = 20_000_000

MODES: dict[str, Mode | bytes] = {
    **NEVER_ANSWER,
    **ANSWER_200,
    **{f"status-{name}": mode for name, (_, mode) in OTHER_STATUSES.items()},
    **LOSE_THE_CONNECTION,
    **ANSWER_NONSENSE,
}


@dataclass(frozen=True)
class Outcomes:
    """All rows, sent concurrently by one transport."""

    name: str
    receiver: Receiver
    exchanges: dict[str, Exchange]


@pytest.fixture(scope="module", params=REAL)
def outcomes(request: pytest.FixtureRequest) -> Iterator[Outcomes]:
    sender = transport(request.param)
    with receiving({f"/{name}": mode for name, mode in MODES.items()}) as receiver:
        requests = [
            post(receiver.url(f"/{name}"), timeout_seconds=_timeout(name), context=name, fresh_connection=True)
            for name in MODES
        ]
        exchanges = {exchange.request.context: exchange for exchange in send_all(sender, requests)}
        yield Outcomes(request.param, receiver, exchanges)
        sender.close()


def _timeout(name: str) -> float:
    return SHORT_SECONDS if name in NEVER_ANSWER or name in NEVER_END_THE_BODY else LONG_SECONDS


@pytest.mark.parametrize("row", NEVER_ANSWER)
def test_a_receiver_that_never_answers_fails_at_the_timeout(outcomes: Outcomes, row: str) -> None:
    exchange = outcomes.exchanges[row]

    assert exchange.response is None
    assert exchange.error == errors.timed_out(SHORT_SECONDS)
    assert SHORT_SECONDS - 0.1 < exchange.duration_seconds < SHORT_SECONDS + 5


@pytest.mark.parametrize("row", ANSWER_200)
def test_a_complete_200_header_decides_regardless_of_the_body(outcomes: Outcomes, row: str) -> None:
    exchange = outcomes.exchanges[row]

    assert exchange.error is None
    assert exchange.response is not None
    assert exchange.response.status == 200
    assert exchange.duration_seconds < SHORT_SECONDS + 5


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("plain", ""),
        ("http-1.0", ""),
        ("endless-body", errors.BODY_TOO_LONG),
        ("endless-chunks", errors.BODY_TOO_LONG),
        ("huge-body", errors.BODY_TOO_LONG),
        ("silent-after-the-header", errors.BODY_TOO_SHORT),
        ("holds-in-a-chunk", errors.BODY_TOO_SHORT),
        ("ends-early", errors.BODY_TOO_SHORT),
        ("resets-in-the-body", errors.BODY_TOO_SHORT),
        ("chunks-end-early", errors.BODY_TOO_SHORT),
        ("broken-chunks", "A chunk has no valid size."),
        ("chunk-longer-than-announced", "A chunk is longer than its announced size."),
    ],
)
def test_the_reason_for_an_incomplete_body_is_known(outcomes: Outcomes, row: str, problem: str) -> None:
    response = outcomes.exchanges[row].response

    assert response is not None
    assert response.body_problem == problem


@pytest.mark.parametrize("row", OTHER_STATUSES)
def test_any_other_status_is_a_response_with_that_status(outcomes: Outcomes, row: str) -> None:
    exchange = outcomes.exchanges[f"status-{row}"]

    assert exchange.response is not None
    assert exchange.response.status == OTHER_STATUSES[row][0]


@pytest.mark.parametrize("row", LOSE_THE_CONNECTION)
def test_an_incomplete_header_is_a_connection_error(outcomes: Outcomes, row: str) -> None:
    exchange = outcomes.exchanges[row]

    assert exchange.response is None
    assert exchange.error == errors.connection_lost()


@pytest.mark.parametrize("row", ANSWER_NONSENSE)
def test_an_answer_that_is_not_http_is_an_invalid_response(outcomes: Outcomes, row: str) -> None:
    exchange = outcomes.exchanges[row]

    assert exchange.response is None
    assert exchange.error in (errors.invalid_response(NO_STATUS_LINE), errors.invalid_response(TOO_LARGE))
    assert exchange.received
    assert exchange.duration_seconds < LONG_SECONDS / 2


@pytest.mark.parametrize(
    ("row", "received"),
    [
        ("closes-after-a-line-without-colon", HEADER + b"nonsense\r\n"),
        ("holds-after-bytes-of-another-protocol", HEADER + b"\x00\x00\x12\x04\x00\r\n"),
        ("ssh-banner", b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n"),
        ("70-kb-header", (HEADER + b"X-A: " + b"a" * 70_000)[:RECEIVED_KEPT]),
        ("closes-at-once", b""),
        ("plain", b""),
    ],
)
def test_the_first_bytes_of_an_invalid_response_are_stored(outcomes: Outcomes, row: str, received: bytes) -> None:
    assert outcomes.exchanges[row].received == received


@pytest.mark.parametrize("row", MODES)
def test_each_attempt_sends_one_request(outcomes: Outcomes, row: str) -> None:
    assert outcomes.receiver.hits(f"/{row}") == 1


@pytest.mark.parametrize("row", FLOODS)
def test_endless_data_is_not_read_completely(outcomes: Outcomes, row: str) -> None:
    wait_until(lambda: f"/{row}" in outcomes.receiver.bytes_sent)

    assert outcomes.receiver.bytes_sent[f"/{row}"] < IN_THE_BUFFERS_OF_BOTH_SYSTEMS


def test_a_reset_of_a_stalled_connection_does_not_keep_the_process_busy() -> None:
    with (
        patch.object(SocketPoller, "wait", autospec=True, side_effect=SocketPoller.wait) as waits,
        receiving({"/flood": reset_after_a_flood_of_100}) as receiver,
        closing(transport("native")) as sender,
    ):
        send_all(sender, [post(receiver.url("/flood"), timeout_seconds=1.5)])

    assert waits.call_count < 50


PARTS = [
    *(b"HTTP/1.1 200 OK\r\n", b"HTTP/1.0 200 OK\n", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\n"),
    *(
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 101 Switch\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\n",
        b"220 mail ESMTP\r\n",
    ),
    *(b"Connection: keep-alive\r\n", b"Content-Length: 5\r\n", b"Content-Length: -5\r\n", b"X: y\r\n", b": \r\n"),
    *(b"Transfer-Encoding: chunked\r\n", b"5\r\nhello\r\n", b"0\r\n\r\n", b"ok", b" folded\r\n", b"\0", b"\xff\xfe"),
    *(b"\r\n", b"\n", b"\r"),
]


def random_answer(random: Random) -> bytes:
    parts = random.choices(PARTS, k=random.randint(1, 8))
    answer = b"".join([PARTS[0], *parts] if random.random() < 0.7 else parts)
    return answer[: random.randint(0, len(answer))] if random.random() < 0.2 else answer


SUCCESS = re.compile(rb"HTTP/1\.[01] 2\d\d [^\n]*\n((?!\r?\n)[^\n]*\n)*\r?\n")
"""A status from 200 to 299 whose header is complete."""


def outcome_of(exchange: Exchange) -> tuple[Response | None, object, object]:
    return exchange.response, exchange.error, exchange.received


def test_random_answers_have_the_same_outcome_on_both_transports_and_no_false_success() -> None:
    random = Random(7)
    answers = {f"/{number}": random_answer(random) for number in range(900)}
    found: dict[str, dict[str, tuple[Response | None, object, object]]] = {}
    with receiving(dict(answers)) as receiver:
        for name in REAL:
            sender = transport(name)
            exchanges = send_all(
                sender, [post(receiver.url(path), timeout_seconds=5.0, fresh_connection=True) for path in answers]
            )
            found[name] = {path: outcome_of(each) for path, each in zip(answers, exchanges, strict=True)}
            sender.close()

    assert found["native"] == found["requests"]
    assert {type(error) for _, error, _ in found["native"].values()} == {TransportError, type(None)}
    succeeded = [path for path, (response, *_) in found["native"].items() if response and 200 <= response.status < 300]
    assert len(succeeded) > 100
    assert [answers[path] for path in succeeded if not SUCCESS.search(answers[path])] == []


MEASURED = """
import resource, sys
from tests.transport.sending import post, send, send_all, transport

sender = transport(sys.argv[1])
base, *rows = sys.argv[2:]
send(sender, post(base + "/plain"))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
send_all(sender, [post(base + "/" + row, timeout_seconds=3.0) for row in rows for _ in range(3)])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_responses_of_any_kind_use_little_memory(name: str) -> None:
    rows = [*FLOODS, "thousands-of-headers", "70-kb-header", "endless-100"]
    with receiving({f"/{row}": MODES[row] for row in [*rows, "plain"]}) as receiver:
        command = [sys.executable, "-W", "error", "-c", MEASURED, name, receiver.url(""), *rows]
        measured = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)

    assert int(measured.stdout) * 1024 < 20_000_000
