"""The endpoint check and the transport that the settings define."""

from __future__ import annotations

from ipaddress import ip_network

from .conf import parse_rate, settings
from .transport import BaseTransport, Endpoint, TransportOptions, make_transport, parse_endpoint


def check_endpoint(url: str) -> Endpoint:
    """Return the parts of a URL that is allowed as an endpoint. Raises InvalidEndpointError."""
    options = transport_options()
    return parse_endpoint(
        url,
        allow_http=options.allow_http,
        allowed_networks=options.allowed_networks,
        refused_networks=options.refused_networks,
    )


def transport_options() -> TransportOptions:
    return TransportOptions(
        allow_http=settings.ALLOW_HTTP,
        allowed_networks=tuple(ip_network(network) for network in settings.ALLOWED_NETWORKS),
        refused_networks=tuple(ip_network(network) for network in settings.REFUSED_NETWORKS),
        proxy=settings.EGRESS_PROXY,
        ca_bundle=settings.CA_BUNDLE,
        max_in_flight=settings.MAX_IN_FLIGHT,
        probes_per_second=_per_second(settings.ADDRESS_PROBE_RATE),
    )


def _per_second(rate: str) -> float | None:
    if not rate:
        return None
    number, seconds = parse_rate(rate)
    return number / seconds


def configured_transport() -> BaseTransport:
    return make_transport(settings.TRANSPORT, transport_options())
