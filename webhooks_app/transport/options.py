"""What a transport may be told about where and how it sends."""

from __future__ import annotations

from dataclasses import dataclass, field

from .ip_filter import Network
from .resolver import Resolve, resolve_by_system

IDLE_CONNECTION_SECONDS = 2
"""Shorter than the keep-alive of common servers, so that a request seldom meets a connection that is being closed."""


@dataclass(frozen=True, kw_only=True)
class TransportOptions:
    """Options of every transport; the defaults are the safe ones."""

    allow_http: bool = False
    allowed_networks: tuple[Network, ...] = ()
    """Networks that may be reached although the table of addresses refuses them."""
    refused_networks: tuple[Network, ...] = ()
    """Networks that may not be reached although nothing else refuses them, or although they are allowed."""
    proxy: str = field(default="", repr=False)
    """An egress proxy as ``http://[user:password@]host:port``. It gets CONNECT with an address that was
    resolved and checked here. The environment's proxies are never used."""
    ca_bundle: str = ""
    """A PEM file of certificate authorities to trust besides the system's."""
    max_in_flight: int = 2000
    probes_per_second: float | None = None
    """The number of probes that one address gets; None for no limit."""
    resolve: Resolve = resolve_by_system
