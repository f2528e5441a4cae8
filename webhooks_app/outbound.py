"""The endpoint check and the transport that the settings define."""

from __future__ import annotations

from ipaddress import ip_network

from .conf import settings
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
    )


def configured_transport() -> BaseTransport:
    return make_transport(settings.TRANSPORT, transport_options())
