"""The bytes of a request, identical for every transport."""

from __future__ import annotations

from .base import Request
from .endpoint import Endpoint


def wire_format(request: Request, endpoint: Endpoint) -> bytes:
    """Return the bytes of the request. Raise ValueError if a header contains a line break or a NUL."""
    pairs = request.encoded_headers()
    given = {name.lower() for name, _ in pairs}
    lines = [b"POST " + endpoint.target.encode("ascii") + b" HTTP/1.1"]
    if b"host" not in given:
        lines.append(b"Host: " + endpoint.authority.encode("ascii"))
    if b"accept" not in given:
        lines.append(b"Accept: */*")
    lines.extend(name + b": " + value for name, value in pairs)
    lines.append(b"Content-Length: %d\r\n\r\n" % len(request.body))
    return b"\r\n".join(lines) + request.body


def bracketed(host: str) -> str:
    """Return the host in its URL form: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host
