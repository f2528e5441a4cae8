"""The table in ``docs/addresses.md`` equals the table in the code."""

from __future__ import annotations

import re
from ipaddress import ip_network
from pathlib import Path

import pytest

from webhooks_app.transport.endpoint import LOCAL_SUFFIXES, MAX_ADDRESSES, MAX_URL_LENGTH
from webhooks_app.transport.refused_addresses import (
    GLOBAL_IPV6,
    REFUSED_IPV4,
    REFUSED_IPV6,
    Network,
    refusal_of_address,
)
from webhooks_app.transport.resolver import LOOKUP_SECONDS

PAGE = Path(__file__).parents[2].joinpath("docs", "addresses.md").read_text()
ROW = re.compile(r"^\| `([0-9a-f:./]+)` \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
ROWS = [(ip_network(network), reason, source) for network, reason, source in ROW.findall(PAGE)]


def test_the_page_lists_the_networks_and_reasons_of_the_code_in_order() -> None:
    assert [(network, reason) for network, reason, _ in ROWS] == [*REFUSED_IPV4, *REFUSED_IPV6]


@pytest.mark.parametrize(("network", "reason", "source"), ROWS, ids=str)
def test_each_network_is_refused_for_the_reason_on_the_page(network: Network, reason: str, source: str) -> None:
    middle = network[network.num_addresses // 2]

    assert {refusal_of_address(address) for address in (middle, network[-1])} == {reason}
    assert refusal_of_address(network[0]) != ""
    assert re.match(r"RFC \d+|Azure's documentation$", source)


def test_the_page_has_the_limits_of_the_code() -> None:
    assert f"`{GLOBAL_IPV6}`" in PAGE
    assert f"at most {MAX_URL_LENGTH:,} characters" in PAGE
    assert f"within {LOOKUP_SECONDS:g} seconds" in PAGE
    assert MAX_ADDRESSES == 8
    assert "the first eight" in PAGE
    assert {"localhost", "local", "internal", "lan"} <= set(LOCAL_SUFFIXES)
