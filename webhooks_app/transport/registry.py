"""Selection of a transport by name."""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib import import_module

from ..extensions import load_class
from .base import BaseTransport
from .options import TransportOptions

logger = logging.getLogger("webhooks_app.transport")

TRANSPORTS = {
    "curl": "webhooks_app.transport.curl.CurlTransport",
    "memory": "webhooks_app.transport.memory.MemoryTransport",
    "requests": "webhooks_app.transport.requests.RequestsTransport",
}


def make_transport(name: str = "auto", options: TransportOptions | None = None) -> BaseTransport:
    """Return the transport with this name or dotted path, or, for "auto", the fastest installed one.

    Raise ValueError for an unknown name.
    """
    chosen = _fastest() if name == "auto" else name
    transport = _factory(chosen)(options or TransportOptions())
    logger.info("Webhooks are sent with the transport %r.", transport.name)
    return transport


def _fastest() -> str:
    try:
        import_module(f"{__package__}.curl")
    except ImportError:  # pycurl is an extra
        return "requests"
    return "curl"


def _factory(name: str) -> Callable[[TransportOptions], BaseTransport]:
    try:
        return load_class(name, BaseTransport, TRANSPORTS)  # type: ignore[type-abstract]
    except ValueError as error:
        raise ValueError(f"The transport cannot be used: {error}. {_HINT}") from error


_HINT = "Use auto, curl, requests, memory or the dotted path of a transport; curl needs the extra of that name."
