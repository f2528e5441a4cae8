"""The permitted addresses: both ends of each refused range, and their neighbors."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address, ip_network

import pytest

from webhooks_app.transport.refused_addresses import (
    GLOBAL_IPV6,
    REFUSED_IPV4,
    REFUSED_IPV6,
    Network,
    refusal_of_address,
)

REFUSED = [
    *("0.0.0.0", "0.255.255.255", "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.127.255.255"),
    *("127.0.0.0", "127.255.255.255", "168.63.129.16", "169.254.0.0", "169.254.169.254", "169.254.255.255"),
    *("172.16.0.0", "172.31.255.255", "192.0.0.0", "192.0.0.9", "192.0.0.255", "192.0.2.0", "192.0.2.255"),
    *("192.31.196.1", "192.52.193.1", "192.88.99.0", "192.88.99.255", "192.168.0.0", "192.168.255.255"),
    *("192.175.48.1", "198.18.0.0", "198.19.255.255", "198.51.100.0", "198.51.100.255", "203.0.113.0"),
    *("203.0.113.255", "224.0.0.0", "239.255.255.255", "240.0.0.0", "255.255.255.255"),
    *("::", "::1", "::2", "::7f00:1", "::ffff:0:0", "::ffff:8.8.8.8", "::ffff:0:8.8.8.8", "64:ff9b::8.8.8.8"),
    *("64:ff9b:1::1", "100::1", "100:0:0:1::1", "200::1", "1fff:ffff::1", "2001::", "2001:1::1", "2001:2::1"),
    *("2001:20::1", "2001:30::1", "2001:1ff:ffff::1", "2001:db8::", "2001:db8:ffff::1", "2002::", "2002:ffff::1"),
    *("2620:4f:8000::1", "3fff::", "3fff:fff::1", "4000::", "5f00::1", "8000::1", "fc00::1", "fd00:ec2::254"),
    *("fe80::1", "febf::1", "fec0::1", "feff::1", "ff02::1", "ffff::1", "fe80::1%eth0", "2606:4700::1%eth0"),
]

REACHED = [
    *("1.0.0.0", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255"),
    *("128.0.0.0", "168.63.129.15", "168.63.129.17", "169.253.255.255", "169.255.0.0", "172.15.255.255"),
    *("172.32.0.0", "191.255.255.255", "192.0.1.0", "192.0.3.0", "192.88.98.255", "192.88.100.0"),
    *("192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "198.51.99.255", "198.51.101.0"),
    *("203.0.112.255", "203.0.114.0", "223.255.255.255"),
    *("2000::1", "2001:200::1", "2001:db7::1", "2001:db9::1", "2003::1", "2606:4700:4700::1111", "2620:4f:8001::1"),
    *("2a00:1450::1", "3fff:1000::1", "3ffe::1", "3fff:ffff:ffff::1"),
]


@pytest.mark.parametrize("text", REFUSED)
def test_an_address_outside_the_public_internet_is_refused(text: str) -> None:
    assert refusal_of_address(ip_address(text)) != ""


@pytest.mark.parametrize("text", REACHED)
def test_an_address_next_to_a_refused_range_is_permitted(text: str) -> None:
    assert refusal_of_address(ip_address(text)) == ""


def test_an_allowed_network_overrides_the_table() -> None:
    networks = [ip_network("10.1.0.0/16"), ip_network("fd00::/8")]

    assert refusal_of_address(ip_address("10.1.2.3"), networks) == ""
    assert refusal_of_address(ip_address("fd00::1"), networks) == ""
    assert refusal_of_address(ip_address("10.2.0.1"), networks) != ""


def test_an_allowed_network_does_not_allow_its_addresses_embedded_in_ipv6() -> None:
    assert refusal_of_address(ip_address("::ffff:127.0.0.1"), [ip_network("127.0.0.0/8")]) != ""


def test_an_address_with_a_zone_is_refused_even_in_an_allowed_network() -> None:
    assert refusal_of_address(IPv6Address("fe80::1%eth0"), [ip_network("fe80::/10")]) != ""


def test_both_ends_of_every_range_in_the_table_are_refused() -> None:
    networks: list[Network] = [*(network for network, _ in REFUSED_IPV4), *(network for network, _ in REFUSED_IPV6)]

    assert [network for network in networks if not refusal_of_address(network[0])] == []
    assert [network for network in networks if not refusal_of_address(network[-1])] == []
    assert all(network.subnet_of(GLOBAL_IPV6) or not network.overlaps(GLOBAL_IPV6) for network, _ in REFUSED_IPV6)
