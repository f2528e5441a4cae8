"""The upper bound of throughput: a bare loop of sockets in one thread, which signs and posts without a database."""

from __future__ import annotations

import select
import socket
import ssl
import time
from urllib.parse import urlsplit

from webhooks_app.signatures import signed_headers

IN_FLIGHT = 64
BODY_BYTES = 1000
SECRET = "a secret for benchmarks"


def deliveries_per_second(url: str, count: int, *, ca_bundle: str = "", fresh: bool = False) -> float:
    """Return the requests per second of the loop, with signed bodies of 1 KB. ``fresh``: on a new connection each.

    The loop reads only the first line of an answer. Raise RuntimeError if the status is not 200.
    """
    parts = urlsplit(url)
    assert parts.hostname is not None
    address = parts.hostname, parts.port or 0
    context = ssl.create_default_context(cafile=ca_bundle) if ca_bundle else None
    body = b"x" * BODY_BYTES
    poll, connections = select.epoll(), {}
    started_at, left, done = time.perf_counter(), count, 0
    idle = [_connect(address, context) for _ in range(IN_FLIGHT)]
    for sock in idle:
        connections[sock.fileno()] = sock
        poll.register(sock, select.EPOLLIN)
    while done < count:
        while idle and left:
            idle.pop().sendall(_request(parts.netloc, parts.path or "/", body))
            left -= 1
        for fd, _ in poll.poll():
            sock = connections[fd]
            if not _answer(sock):
                continue
            done += 1
            if fresh:
                del connections[fd]
                sock.close()
                sock = _connect(address, context)
                connections[sock.fileno()] = sock
                poll.register(sock, select.EPOLLIN)
            idle.append(sock)
    seconds = time.perf_counter() - started_at
    for sock in connections.values():
        sock.close()
    poll.close()
    return count / seconds


def _connect(address: tuple[str, int], context: ssl.SSLContext | None) -> socket.socket:
    sock = socket.create_connection(address)
    if context is not None:
        sock = context.wrap_socket(sock, server_hostname=address[0])
    sock.setblocking(False)
    return sock


def _request(netloc: str, path: str, body: bytes) -> bytes:
    headers = signed_headers(SECRET, int(time.time()), "ppt.generation.failed", body)
    lines = [f"POST {path} HTTP/1.1", f"Host: {netloc}", *(f"{name}: {value}" for name, value in headers)]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body


def _answer(sock: socket.socket) -> bool:
    """Return True if an answer arrived, and not only a message of TLS."""
    try:
        if not (answer := sock.recv(65536)).startswith(b"HTTP/1.1 200 "):
            raise RuntimeError(f"The receiver answered the bare loop with {answer[:40]!r}.")
    except ssl.SSLWantReadError:
        return False
    return True
