"""What the settings choose: signature schemes, retry policies, filter operators, orders, transport and guard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import ip_network
from typing import Any

from .conf import parse_rate, settings
from .filters import FILTER_OPERATORS, BaseOperator, Filter
from .retry import RETRY_POLICIES, BaseRetryPolicy, name_in, unpack_policy
from .signatures import SIGNATURES, BaseSignature
from .transport import BaseTransport, Endpoint, TransportOptions, make_transport, parse_endpoint


def known_signatures() -> Mapping[str, BaseSignature]:
    """Return all usable schemes by name: the built-in ones, and those in the setting."""
    return SIGNATURES.named((*SIGNATURES.built_in, *settings.SIGNATURES))


def offered_signatures() -> Mapping[str, BaseSignature]:
    """Return the schemes that owners may choose, by name."""
    return SIGNATURES.named(tuple(settings.SIGNATURES))


def known_policies() -> Mapping[str, BaseRetryPolicy]:
    """Return all usable retry policies by name: those in the setting, the default first, then the built-in ones."""
    return RETRY_POLICIES.named((*settings.RETRY_POLICIES, *RETRY_POLICIES.built_in))


def offered_policies() -> Mapping[str, BaseRetryPolicy]:
    """Return the retry policies that owners may choose, by name."""
    return RETRY_POLICIES.named(tuple(settings.RETRY_POLICIES))


def retry_policy(name: str = "") -> BaseRetryPolicy:
    """Return the policy with this name. Without a name, or if it is no longer configured, return the default policy."""
    policies = known_policies()
    return policies.get(name) or next(iter(policies.values()))


def policy_of_delivery(stored: str) -> BaseRetryPolicy:
    """Return the policy for the text that a delivery has, made by ``pack_policy``."""
    name = name_in(stored)
    return unpack_policy(stored, known_policies().get(name)) or retry_policy()


def offered_orders() -> Sequence[str]:
    """Return the orders that a webhook's owner may choose."""
    return tuple(settings.ORDERS)


def known_operators() -> Mapping[str, BaseOperator]:
    """Return all usable filter operators by name: the built-in ones, and those in the setting."""
    return FILTER_OPERATORS.named((*FILTER_OPERATORS.built_in, *settings.FILTER_OPERATORS))


def offered_operators() -> Mapping[str, BaseOperator]:
    """Return the filter operators that owners may use, by name."""
    return FILTER_OPERATORS.named(tuple(settings.FILTER_OPERATORS))


def parse_filter(source: Any) -> Filter:
    """Return a filter that may contain any usable operator. Raises InvalidFilterError."""
    return Filter(source, known_operators())


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
