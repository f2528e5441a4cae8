"""A receiver in a separate process. The path selects its behavior: ``/ok/1``, ``/fails-2/anything``, ``/hangs``.

Its log survives crashes of the receiver and the workers. It writes one line after reading a request, and another before
the response, each immediately.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import socket
import struct
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

from .invariants import Hit

LOGGED = (
    *("x-webhook-event", "x-webhook-timestamp", "x-webhook-signature", "x-webhook-signature-previous"),
    *("webhook-id", "webhook-timestamp", "webhook-signature", "x-tenant", "authorization"),
)

Answer = Callable[["Exchange", str], Awaitable[None]]


class Exchange:
    """One request, and the possible responses."""

    def __init__(
        self,
        number: int,
        times: int,
        body: bytes,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        log: Log,
        released: asyncio.Event,
    ) -> None:
        self.number = number
        self.times = times
        """The number of requests for this event, including this one."""
        self.body = body
        self.released = released
        self._reader = reader
        self._writer = writer
        self._log = log

    async def answer(self, status: int, body: bytes = b"", *, length: int | None = None, headers: str = "") -> None:
        head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body) if length is None else length}\r\n{headers}\r\n"
        self._log.write(what="answer", number=self.number, at=time.time(), status=status)
        await self.send(head.encode() + body)

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def close(self) -> None:
        self._writer.close()

    async def wait_until_abandoned(self) -> None:
        """Wait until the other side has closed the connection."""
        try:
            await self._reader.read(1)
        finally:
            self._log.write(what="abandoned", number=self.number, at=time.time())

    async def reset(self) -> None:
        """End the connection with RST, like a crashing receiver."""
        connection: socket.socket = self._writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


async def _ok(exchange: Exchange, argument: str) -> None:
    challenge = json.loads(exchange.body)["data"].get("challenge")
    await exchange.answer(200, json.dumps({"challenge": challenge}).encode() if challenge else b"")


async def _slow(exchange: Exchange, argument: str) -> None:
    await asyncio.sleep(float(argument or 1))
    await _ok(exchange, "")


async def _held(exchange: Exchange, argument: str) -> None:
    """Answer after SIGUSR1 only."""
    await exchange.released.wait()
    await _ok(exchange, "")


async def _slowly_fails(exchange: Exchange, argument: str) -> None:
    await asyncio.sleep(float(argument or 1))
    await exchange.answer(500)


async def _fails(exchange: Exchange, argument: str) -> None:
    await exchange.answer(500 if exchange.times <= int(argument or 1) else 200)


async def _never(exchange: Exchange, argument: str) -> None:
    await exchange.answer(503)


async def _hangs(exchange: Exchange, argument: str) -> None:
    await exchange.wait_until_abandoned()


async def _recovers(exchange: Exchange, argument: str) -> None:
    """Hang. After SIGUSR1, answer new requests in 50 ms, while the old ones still hang."""
    if not exchange.released.is_set():
        await exchange.wait_until_abandoned()
    await _slow(exchange, "0.05")


async def _drips(exchange: Exchange, argument: str) -> None:
    """Answer with a header, followed by one byte of the body every half second."""
    await exchange.answer(int(argument), length=10_000)
    while True:
        await asyncio.sleep(0.5)
        await exchange.send(b".")


async def _resets(exchange: Exchange, argument: str) -> None:
    await (exchange.reset() if exchange.times <= int(argument or 9) else exchange.answer(200))


async def _truncated(exchange: Exchange, argument: str) -> None:
    await exchange.answer(200, b"only the beginning", length=1000)
    await exchange.close()


async def _half_a_header(exchange: Exchange, argument: str) -> None:
    await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Le")
    await exchange.close()


async def _no_content(exchange: Exchange, argument: str) -> None:
    await exchange.answer(204)


async def _redirects(exchange: Exchange, argument: str) -> None:
    await exchange.answer(302, headers="Location: /ok/elsewhere\r\n")


async def _moody(exchange: Exchange, argument: str) -> None:
    """Select a behavior for each request. It is always the same for the same request of the same event."""
    tempers = [_ok, _fails, _resets, _slow, _half_a_header]
    mood = sum(exchange.body) + exchange.times
    await tempers[mood % len(tempers)](exchange, "0.2" if mood % len(tempers) == 3 else "")


async def _uneven(exchange: Exchange, argument: str) -> None:
    """Fail one request in three, and answer the others after up to 60 ms; the same for the same request each time."""
    mood = sum(exchange.body) + exchange.times
    tempers = [_fails, _resets, *[_slow] * 4]
    await tempers[mood % 6](exchange, "9" if mood % 6 < 2 else str(mood % 4 / 50))


TEMPERS: Mapping[str, Answer] = {
    "ok": _ok,
    "slow": _slow,
    "held": _held,
    "slowlyfails": _slowly_fails,
    "fails": _fails,
    "never": _never,
    "hangs": _hangs,
    "recovers": _recovers,
    "drips": _drips,
    "resets": _resets,
    "truncated": _truncated,
    "halfaheader": _half_a_header,
    "nocontent": _no_content,
    "redirects": _redirects,
    "moody": _moody,
    "uneven": _uneven,
}


class Log:
    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_APPEND | os.O_CREAT | os.O_WRONLY)

    def write(self, **line: Any) -> None:
        os.write(self._file, (json.dumps(line) + "\n").encode())


class LogReader:
    """A reader of the log while the receiver is still writing it. Each call reads only new lines."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: TextIO | None = None
        self._rest = ""
        self._requests: dict[int, dict[str, Any]] = {}

    def requests(self) -> list[dict[str, Any]]:
        """Return the data of each request, in the order of arrival."""
        if self._file is None:
            self._file = self._path.open()
        *lines, self._rest = (self._rest + self._file.read()).split("\n")
        for text in lines:
            line = json.loads(text)
            what, number = line.pop("what"), line["number"]
            if what == "hit":
                self._requests[number] = line
            elif what == "answer":
                self._requests[number].update(answered_at=line["at"], ended_at=line["at"], status=line["status"])
            else:
                self._requests[number].update(ended_at=line["at"])
        return list(self._requests.values())

    def hits(self) -> list[Hit]:
        names = ("event_id", "event_type", "path", "at", "answered_at", "status")
        return [
            Hit(announced=_announced(request), **{name: request[name] for name in names if name in request})
            for request in self.requests()
        ]

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _announced(request: Mapping[str, Any]) -> tuple[str, int] | None:
    if request["event_type"] != "webhook.retry":
        return None
    data = json.loads(request["body"])["data"]
    return data["original_event_id"], data["retry_count"]


class Receiver:
    def __init__(self, log: Path) -> None:
        before = LogReader(log)
        log.touch()
        requests = before.requests()
        before.close()
        self._number = len(requests)
        self._times = Counter((request["event_id"], request["path"]) for request in requests)
        self._log = Log(log)
        self._released = asyncio.Event()

    async def serve(self, port: int) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, os._exit, 0)
        loop.add_signal_handler(signal.SIGUSR1, self._released.set)
        server = await asyncio.start_server(self._connected, "127.0.0.1", port, backlog=1024)
        await server.serve_forever()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                await self._take(head, reader, writer)
        except (OSError, EOFError):
            writer.close()  # The worker closed the connection, or was killed.

    async def _take(self, head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request_line, *lines = head.split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        body = await reader.readexactly(int(headers["content-length"]))
        path = request_line.split(" ")[1]
        event_id = json.loads(body).get("id", "")
        self._number += 1
        self._times[event_id, path] += 1
        self._log.write(
            what="hit",
            number=self._number,
            at=time.time(),
            event_id=event_id,
            path=path,
            event_type=headers["x-webhook-event"],
            timestamp=headers["x-webhook-timestamp"],
            signature=headers["x-webhook-signature"],
            body=body.decode(),
            headers={name: value for name, value in headers.items() if name in LOGGED},
        )
        temper, _, argument = path.split("/")[1].partition("-")
        times = self._times[event_id, path]
        exchange = Exchange(self._number, times, body, reader, writer, self._log, self._released)
        await TEMPERS[temper](exchange, argument)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--log", type=Path, required=True)
    arguments = parser.parse_args()
    asyncio.run(Receiver(arguments.log).serve(arguments.port))


if __name__ == "__main__":
    main()
