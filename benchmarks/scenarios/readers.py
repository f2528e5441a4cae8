"""The app's reader of responses beside h11, httptools and the standard library: CPU time, and unusual answers."""

from __future__ import annotations

import argparse
import http.client
import importlib
import io
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any, ClassVar

from webhooks_app.transport.answer import AnswerReader

from ..progress import Progress
from ..scenario import BaseScenario, Figures, Variant

Read = Callable[[bytes], tuple[int | None, bytes]]
"""Returns the status and the body of an answer. Without a status, the answer was refused."""

USUAL = (
    b"HTTP/1.1 200 OK\r\nServer: nginx\r\nDate: Sat, 28 Nov 2026 12:00:00 GMT\r\nX-Request-Id: %032x\r\n"
    b"Content-Type: application/json\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\n{}"
)
UNUSUAL = (
    b"HTTP/1.1 200 OK\r\nno colon\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\nX-Name : 1\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\nX-Name: a\0b\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n{}",
    b"HTTP/1.1 200 OK\nContent-Length: 2\n\n{}",
)
"""Complete headers with status 200 that break a rule of RFC 9112, as receivers and proxies send them."""


class Readers(BaseScenario):
    name = "readers"
    summary = (
        "reading a response of 220 bytes, and unusual responses with a complete header: this app and other readers"
    )
    variants = (Variant(label="one thread", database="sqlite", broker="folder"),)
    options: ClassVar = {"answers": (20_000, "answers to read")}
    quick: ClassVar = {"answers": 200}

    def measure(self, arguments: argparse.Namespace, variant: Variant, progress: Progress) -> Figures:
        figures: Figures = {}
        for name, read in _readers().items():
            progress.step(name)
            fresh = [USUAL % number for number in range(arguments.answers)]
            figures[f"{name}_ms_per_1000"] = _milliseconds(read, fresh)
            figures[f"{name}_repeated_ms_per_1000"] = _milliseconds(read, [fresh[0]] * len(fresh))
            figures[f"{name}_unusual_read"] = sum(read(answer)[0] == 200 for answer in UNUSUAL)
        return figures


def _milliseconds(read: Read, answers: Sequence[bytes]) -> float:
    """Return the CPU time for a thousand answers."""
    if read(answers[0]) != (200, b"{}"):
        raise RuntimeError("A reader did not read an answer.")
    began = time.thread_time()
    for answer in answers:
        read(answer)
    return (time.thread_time() - began) * 1e6 / len(answers)


def _readers() -> dict[str, Read]:
    """Return the readers that are installed."""
    others = {"h11": _h11, "httptools": _httptools}
    return {
        "ours": _ours,
        "http_client": _http_client,
        **{name: make(importlib.import_module(name)) for name, make in others.items() if find_spec(name)},
    }


def _ours(answer: bytes) -> tuple[int | None, bytes]:
    reader = AnswerReader()
    reader.feed(answer)
    return (reader.response.status, reader.response.body) if reader.response else (None, b"")


def _http_client(answer: bytes) -> tuple[int | None, bytes]:
    response = http.client.HTTPResponse(_Socket(answer), method="POST")  # type: ignore[arg-type]
    try:
        response.begin()
        return response.status, response.read()
    except (http.client.HTTPException, ValueError):
        return None, b""


class _Socket:
    """All that ``http.client`` needs of a socket."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._answer)


def _h11(h11: Any) -> Read:
    request = h11.Request(method="POST", target="/", headers=[("Host", "a.example"), ("Content-Length", "0")])

    def read(answer: bytes) -> tuple[int | None, bytes]:
        connection = h11.Connection(h11.CLIENT)
        connection.send(request)
        connection.send(h11.EndOfMessage())
        connection.receive_data(answer)
        try:
            status = connection.next_event().status_code
        except h11.RemoteProtocolError:
            return None, b""
        body = b""
        while isinstance(event := connection.next_event(), h11.Data):
            body += event.data
        return status, body

    return read


def _httptools(httptools: Any) -> Read:
    class Response:
        def __init__(self) -> None:
            self.parser = httptools.HttpResponseParser(self)
            self.status: int | None = None
            self.headers: list[tuple[str, str]] = []
            self.body = b""

        def on_header(self, name: bytes, value: bytes) -> None:
            self.headers.append((name.decode("latin-1"), value.decode("latin-1")))

        def on_headers_complete(self) -> None:
            self.status = self.parser.get_status_code()

        def on_body(self, body: bytes) -> None:
            self.body += body

    def read(answer: bytes) -> tuple[int | None, bytes]:
        response = Response()
        try:
            response.parser.feed_data(answer)
        except httptools.HttpParserError:
            return None, b""
        return response.status, response.body

    return read
