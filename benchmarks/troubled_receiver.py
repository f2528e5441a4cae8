"""A receiver that never finishes a request: ``python troubled_receiver.py PORT``.

The path selects the fault. ``/hang`` sends no response. ``/turn-1800000000`` hangs from this Unix time, and answers 200
before. ``/drip-200`` and ``/drip-500`` send a header, then a byte of the body every second. TLS handshakes hang.
"""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import suppress

BACKLOG = 8192
DRIP_SECONDS = 1.0
CLIENT_HELLO = b"\x16"


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError, EOFError):
        begin = await reader.readexactly(1)
        if begin == CLIENT_HELLO:
            await reader.read()
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        fault, _, status = head.split(" ", 2)[1].split("/")[1].partition("-")
        is_healthy = fault == "turn" and time.time() < float(status)
        if is_healthy:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        elif fault == "drip":
            writer.write(f"HTTP/1.1 {status} Dripping\r\nContent-Length: 999\r\n\r\n".encode())
            asyncio.get_running_loop().call_later(DRIP_SECONDS, _drip, writer)
        while not is_healthy and await reader.read(65536):
            pass
    writer.close()


def _drip(writer: asyncio.StreamWriter) -> None:
    if not writer.is_closing():
        writer.write(b".")
        asyncio.get_running_loop().call_later(DRIP_SECONDS, _drip, writer)


async def _main(port: int) -> None:
    server = await asyncio.start_server(_serve, "127.0.0.1", port, backlog=BACKLOG)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1])))
