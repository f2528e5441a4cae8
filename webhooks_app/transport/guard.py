"""The rules about the URLs and the resolved addresses of one transport."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from ipaddress import ip_address

from .base import TransportError, TransportOptions
from .endpoint import Endpoint, parse_endpoint
from .errors import address_refused, name_unknown
from .refused_addresses import Address, refusal_of_address

MAX_ADDRESSES = 8
"""The maximum number of addresses of a name that are tried."""


class AddressGuard:
    """The rules about URLs and addresses for one transport, from its options."""

    def __init__(self, options: TransportOptions) -> None:
        self._allowed_networks = options.allowed_networks
        self._refused_networks = options.refused_networks
        parse = partial(
            parse_endpoint,
            allow_http=options.allow_http,
            allowed_networks=options.allowed_networks,
            refused_networks=options.refused_networks,
        )
        self._parse = lru_cache(maxsize=1024)(parse)
        self._checked = lru_cache(maxsize=1024)(self._check)

    def endpoint(self, url: str) -> Endpoint:
        """Return the parts of the URL for the connection. Raise ``InvalidEndpointError`` if it is refused."""
        return self._parse(url)

    def check_answer(self, host: str, answer: Sequence[str]) -> tuple[Address, ...] | TransportError:
        """Return the addresses to try, in order. Return the error if the answer is empty or has a refused address."""
        check = self._checked if len(answer) <= MAX_ADDRESSES else self._check
        return check(host, tuple(answer))

    def _check(self, host: str, answer: tuple[str, ...]) -> tuple[Address, ...] | TransportError:
        if not answer:
            return name_unknown(host)
        addresses: dict[Address, None] = {}
        for text in answer:
            address = _parsed(text)
            if address is None or refusal_of_address(address, self._allowed_networks, self._refused_networks):
                return address_refused(host)
            addresses[address] = None
        return tuple(addresses)[:MAX_ADDRESSES]


def _parsed(text: str) -> Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None
