"""A receiver whose paths come back one after the other: ``python returning_receiver.py PORT LOG``.

``/12/1800000000.5`` answers 503 until this Unix time, and then 200. Each request has a line in the log: the time of
its first byte, the number in the path, the identifier of the event, and the status.

For speed, it supports only requests with a Content-Length, on persistent connections.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from pathlib import Path
from typing import TextIO

BACKLOG = 8192
FLUSH_SECONDS = 0.05
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
EVENT_ID = re.compile(rb'"id": ?"(evt_\w+)"')
ANSWER = "HTTP/1.1 {} Status\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n"
ANSWERS = {status: ANSWER.format(status).encode() for status in (200, 503)}


class Connection(asyncio.Protocol):
    """A connection with one request at a time."""

    def __init__(self, log: TextIO) -> None:
        self._log = log
        self._received = b""
        self._began_at = 0.0
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if not self._received:
            self._began_at = time.time()
        self._received += data
        head, found, body = self._received.partition(b"\r\n\r\n")
        length = LENGTH.search(head)
        if found and length and len(body) >= int(length[1]):
            self._received = b""
            self._answer(head.split(b" ", 2)[1].decode("latin-1"), body)

    def _answer(self, path: str, body: bytes) -> None:
        assert self._transport is not None
        _, number, back_at = path.split("/")
        status = 200 if self._began_at >= float(back_at) else 503
        event = EVENT_ID.search(body)
        self._log.write(f"{self._began_at:.4f} {number} {event[1].decode() if event else '-'} {status}\n")
        self._transport.write(ANSWERS[status])


async def _serve(port: int, path: Path) -> None:
    with path.open("a") as log:
        await asyncio.get_running_loop().create_server(lambda: Connection(log), "127.0.0.1", port, backlog=BACKLOG)
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            log.flush()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), Path(sys.argv[2])))
