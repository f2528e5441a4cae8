"""The refused addresses. The table is our own, because ``is_global`` differs between Python versions."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import TypeAlias

from ..reasons import ReasonText

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

REFUSED_IPV4: tuple[tuple[IPv4Network, str], ...] = tuple(
    (IPv4Network(network), ReasonText(f"address_{kind}"))
    for network, kind in (
        ("0.0.0.0/8", "this_host"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "carrier"),
        ("127.0.0.0/8", "loopback"),
        ("168.63.129.16/32", "cloud"),
        ("169.254.0.0/16", "link_local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "protocols"),
        ("192.0.2.0/24", "documentation"),
        ("192.31.196.0/24", "protocols"),
        ("192.52.193.0/24", "protocols"),
        ("192.88.99.0/24", "6to4_relay"),
        ("192.168.0.0/16", "private"),
        ("192.175.48.0/24", "protocols"),
        ("198.18.0.0/15", "benchmarks"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
)
"""IANA's special-purpose registry for IPv4, multicast, and cloud services at public addresses.

``docs/addresses.md`` lists the source of each line.
"""

GLOBAL_IPV6 = IPv6Network("2000::/3")
"""The only part of IPv6 allocated to public hosts."""

REFUSED_IPV6: tuple[tuple[IPv6Network, str], ...] = tuple(
    (IPv6Network(network), ReasonText(f"address_{kind}"))
    for network, kind in (
        ("::/128", "this_host"),
        ("::1/128", "loopback"),
        ("::/96", "ipv4_in_ipv6"),
        ("::ffff:0:0/96", "ipv4_in_ipv6"),
        ("::ffff:0:0:0/96", "ipv4_in_ipv6"),
        ("64:ff9b::/96", "ipv4_in_ipv6"),
        ("64:ff9b:1::/48", "ipv4_in_ipv6"),
        ("100::/64", "discarded"),
        ("100:0:0:1::/64", "discarded"),
        ("2001::/23", "protocols"),
        ("2001:db8::/32", "documentation"),
        ("2002::/16", "ipv4_in_ipv6"),
        ("2620:4f:8000::/48", "protocols"),
        ("3fff::/20", "documentation"),
        ("5f00::/16", "protocols"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link_local"),
        ("fec0::/10", "private"),
        ("ff00::/8", "multicast"),
    )
)
"""IANA's special-purpose registry for IPv6. Networks outside ``GLOBAL_IPV6`` are listed only for their reason."""


def refusal_of_address(
    address: Address, allowed_networks: Iterable[Network] = (), refused_networks: Iterable[Network] = ()
) -> str:
    """Return the reason for refusing the address, in a few words, or "" if it is permitted.

    An address with a zone is always refused. ``refused_networks`` takes precedence over ``allowed_networks``, which
    takes precedence over the table.
    """
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        return ReasonText("address_link_local")
    if any(address in network for network in refused_networks):
        return ReasonText("address_refused_by_operator")
    if any(address in network for network in allowed_networks):
        return ""
    if isinstance(address, IPv4Address):
        return next((reason for network, reason in REFUSED_IPV4 if address in network), "")
    return _refusal_of_ipv6(address)


def _refusal_of_ipv6(address: IPv6Address) -> str:
    for network, reason in REFUSED_IPV6:
        if address in network:
            return reason
    return "" if address in GLOBAL_IPV6 else ReasonText("address_unallocated")
