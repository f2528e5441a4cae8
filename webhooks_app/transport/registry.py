"""Choosing a transport by name."""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib import import_module
from inspect import isclass

from .base import BaseTransport
from .options import TransportOptions

logger = logging.getLogger("webhooks_app.transport")

TRANSPORTS = {
    "curl": "webhooks_app.transport.curl.CurlTransport",
    "memory": "webhooks_app.transport.memory.MemoryTransport",
    "requests": "webhooks_app.transport.requests.RequestsTransport",
}


def make_transport(name: str = "auto", options: TransportOptions | None = None) -> BaseTransport:
    """Return a transport by its name, by the dotted path of its class, or, for "auto", the fastest that is installed.

    Raises ValueError for a name that leads nowhere.
    """
    chosen = _fastest() if name == "auto" else name
    make = _factory(TRANSPORTS.get(chosen, chosen))
    transport = make(options or TransportOptions())
    logger.info("Webhooks are sent with the transport %r.", transport.name)
    return transport


def _fastest() -> str:
    try:
        import_module(f"{__package__}.curl")
    except ImportError:  # pycurl is an extra
        return "requests"
    return "curl"


def _factory(path: str) -> Callable[[TransportOptions], BaseTransport]:
    module_name, _, class_name = path.rpartition(".")
    try:
        found = getattr(import_module(module_name), class_name)
    except (ImportError, ValueError, AttributeError) as error:
        raise ValueError(f"The transport {path!r} cannot be imported ({error}). {_HINT}") from error
    if not (isclass(found) and issubclass(found, BaseTransport)):
        raise ValueError(f"{path!r} is not a subclass of BaseTransport. {_HINT}")
    return found


_HINT = "Name auto, curl, requests, memory or the dotted path of a transport; curl needs the extra of that name."
