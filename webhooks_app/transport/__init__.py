"""Sending one HTTP request safely, and many at once."""

from __future__ import annotations

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
)
from .endpoint import Endpoint
from .endpoint import parse_endpoint as parse_endpoint
from .guard import AddressGuard
from .options import TransportOptions
from .registry import make_transport as make_transport

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
