"""The egress proxy of the settings."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit


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
