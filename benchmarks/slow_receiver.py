"""A receiver that responds with 200 after a delay: ``python slow_receiver.py PORT SECONDS LOG ADDRESS…``.

For speed, it supports only requests with a Content-Length, on persistent connections.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok"
FLUSH_SECONDS = 0.1


class Connection(asyncio.Protocol):
    """A connection with one request at a time."""

    def __init__(self, delay_seconds: float, log: TextIO) -> None:
        self._delay_seconds = delay_seconds
        self._log = log
        self._received = b""
        self._began_at = 0.0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None

    def data_received(self, data: bytes) -> None:
        if not self._received:
            self._began_at = time.time()
        self._received += data
        head, found, body = self._received.partition(b"\r\n\r\n")
        if found and len(body) >= int(_header(head, b"content-length") or 0):
            self._received = b""
            asyncio.get_running_loop().call_later(self._delay_seconds, self._answer, head, self._began_at)

    def _answer(self, head: bytes, began_at: float) -> None:
        if self._transport is None:
            return
        self._transport.write(ANSWER)
        path = head.split(b" ", 2)[1].decode("latin-1")
        answered_at, signature = time.time(), _header(head, b"x-webhook-signature").decode("latin-1")
        self._log.write(f"{answered_at:.4f} {answered_at - began_at:.4f} 127.0.0.1{path} {signature}\n")


def _header(head: bytes, name: bytes) -> bytes:
    begin = head.lower().find(b"\r\n" + name + b":")
    return head[begin + len(name) + 3 :].split(b"\r\n", 1)[0].strip() if begin >= 0 else b""


async def _serve(port: int, delay_seconds: float, path: Path, addresses: Sequence[str]) -> None:
    loop = asyncio.get_running_loop()
    with path.open("a") as log:
        await loop.create_server(lambda: Connection(delay_seconds, log), addresses, port, backlog=8192)
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            log.flush()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:]))
