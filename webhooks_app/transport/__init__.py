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
from .endpoint import Endpoint, parse_endpoint
from .options import TransportOptions
from .registry import make_transport

__all__ = [
    "BODY_SECONDS",
    "RESPONSE_KEPT",
    "RESPONSE_READ_LIMIT",
    "BaseTransport",
    "Endpoint",
    "ErrorClass",
    "Exchange",
    "Request",
    "Response",
    "TransportError",
    "TransportOptions",
    "make_transport",
    "parse_endpoint",
]
