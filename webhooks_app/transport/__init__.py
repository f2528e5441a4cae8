"""Sending one HTTP request safely, and many at once."""

from __future__ import annotations

import logging
from collections.abc import Callable

from ..implementations import Implementations
from .base import (
    BODY_SECONDS,
    RESPONSE_KEPT,
    RESPONSE_READ_LIMIT,
    BaseTransport,
    ErrorClass,
    Exchange,
    Request,
    Response,
    TransportError,
    TransportOptions,
)
from .endpoint import AddressGuard, Endpoint
from .endpoint import parse_endpoint as parse_endpoint

__all__ = [
    "BODY_SECONDS",
    "RESPONSE_KEPT",
    "RESPONSE_READ_LIMIT",
    "AddressGuard",
    "BaseTransport",
    "Endpoint",
    "ErrorClass",
    "Exchange",
    "Request",
    "Response",
    "TransportError",
    "TransportOptions",
]

logger = logging.getLogger("webhooks_app.transport")

DEFAULT = "native"

TRANSPORTS: Implementations[BaseTransport] = Implementations(
    BaseTransport,  # type: ignore[type-abstract]
    {
        "native": "webhooks_app.transport.native.NativeTransport",
        "memory": "webhooks_app.transport.memory.MemoryTransport",
        "requests": "webhooks_app.transport.requests.RequestsTransport",
    },
)


def make_transport(name: str = DEFAULT, options: TransportOptions | None = None) -> BaseTransport:
    """Return the transport with this name or dotted path. Raise ValueError for an unknown name."""
    transport = _factory(name)(options or TransportOptions())
    logger.info("Webhooks are sent with the transport %r.", transport.name)
    return transport


def _factory(name: str) -> Callable[[TransportOptions], BaseTransport]:
    try:
        return TRANSPORTS.load(name)
    except ValueError as error:
        raise ValueError(f"The transport cannot be used: {error}. {_HINT}") from error


_HINT = "Use native, requests, memory or the dotted path of a transport."
