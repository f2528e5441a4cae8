"""The options of a transport: permitted networks, proxy, certificates and limits."""

from __future__ import annotations

from dataclasses import dataclass, field

from .refused_addresses import Network
from .resolver import Resolve, resolve_by_system

IDLE_CONNECTION_SECONDS = 2
"""Shorter than the keep-alive time of common servers, so that few requests find a connection closing."""


@dataclass(frozen=True, kw_only=True)
class TransportOptions:
    """Options of every transport. The defaults are safe."""

    allow_http: bool = False
    allowed_networks: tuple[Network, ...] = ()
    """Networks that are permitted although the table of addresses refuses them."""
    refused_networks: tuple[Network, ...] = ()
    """Networks that are always refused, even if they are allowed."""
    proxy: str = field(default="", repr=False)
    """An egress proxy as ``http://[user:password@]host:port``. Its CONNECT requests contain an address that was
    resolved and checked here. The proxies of the environment are never used."""
    ca_bundle: str = ""
    """A PEM file with certificate authorities to trust in addition to the system's."""
    max_in_flight: int = 2000
    probes_per_second: float | None = None
    """The number of probes that one address gets; None for no limit."""
    resolve: Resolve = resolve_by_system
