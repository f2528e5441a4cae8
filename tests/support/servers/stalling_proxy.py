"""A proxy that never answers for one port: ``python stalling_proxy.py PORT STALLED_PORT``. Others are tunnelled."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

BACKLOG = 8192


@contextmanager
def running_proxy(stalled_port: int) -> Generator[str]:
    """Run the proxy; yield its URL."""
    from .process import free_port, listens, running, server_directory

    with server_directory("proxy") as directory:
        port = free_port()
        command: list[str | Path] = [sys.executable, Path(__file__), str(port), str(stalled_port)]
        with running(command, directory=directory, ready=lambda: listens(port)):
            yield f"http://127.0.0.1:{port}"


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, stalled_port: str) -> None:
    with suppress(OSError, EOFError):
        target = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
        host, _, port = target.rpartition(":")
        if port == stalled_port:
            await reader.read()
        else:
            upstream, downstream = await asyncio.open_connection(host, int(port))
            writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
            await asyncio.gather(_copy(reader, downstream), _copy(upstream, writer))
    writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
    writer.close()


async def _main(port: int, stalled_port: str) -> None:
    server = await asyncio.start_server(
        lambda reader, writer: _serve(reader, writer, stalled_port), "127.0.0.1", port, backlog=BACKLOG
    )
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1]), sys.argv[2]))
