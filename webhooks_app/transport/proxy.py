"""The egress proxy of the settings, and its tunnels (CONNECT)."""

from __future__ import annotations

import re
import socket
import time
from base64 import b64encode
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from .connection import WOULD_BLOCK
from .steps import READ, WRITE, Steps, Wait
from .wire_format import bracketed

MAX_ANSWER_BYTES = 64 * 1024
_AGREES = re.compile(rb"HTTP/1\.[01] 200[ \r\n]")


@dataclass(frozen=True, kw_only=True)
class Proxy:
    """The proxy's address. ``authorization`` is the complete header value, or empty."""

    host: str
    port: int
    authorization: str = field(default="", repr=False)


def parse_proxy(url: str) -> Proxy:
    """Return the parts of ``http://[user:password@]host:port``. Raise ValueError for any other form."""
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname or not parts.port or parts.path not in ("", "/"):
        raise ValueError("The egress proxy's URL is not of the form http://[user:password@]host:port. Correct it.")
    authorization = ""
    if parts.username is not None:
        credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = f"Basic {b64encode(credentials.encode()).decode('ascii')}"
    return Proxy(host=parts.hostname, port=parts.port, authorization=authorization)


def tunnel(sock: socket.socket, authorization: str, address: str, port: int, until: float) -> Steps[bool]:
    """Request a tunnel to the address from the proxy at the socket. Return True if the proxy confirms it in time.

    Raise OSError if the connection to the proxy fails.
    """
    target = f"{bracketed(address)}:{port}"
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if authorization:
        lines.append(f"Proxy-Authorization: {authorization}")
    unsent = "\r\n".join([*lines, "", ""]).encode("latin-1")
    header = b""
    while b"\r\n\r\n" not in header and len(header) < MAX_ANSWER_BYTES:
        try:
            if unsent:
                unsent = unsent[sock.send(unsent) :]
            else:
                header += (received := sock.recv(4096))
                if not received:
                    return False
        except WOULD_BLOCK:
            if time.monotonic() >= until:
                return False
            yield Wait(until, {sock.fileno(): WRITE if unsent else READ})
    # What follows the header would be lost, or taken for the receiver's.
    return header.find(b"\r\n\r\n") == len(header) - 4 >= 0 and _AGREES.match(header) is not None
