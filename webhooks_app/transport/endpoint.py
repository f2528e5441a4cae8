"""A strict parser for the URLs of webhooks. Connections use the parts that it returns, never the URL."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_network

import idna

from ..exceptions import InvalidEndpointError
from .refused_addresses import Address, Network, refusal_of_address

MAX_URL_LENGTH = 2048
DEFAULT_PORTS = {"https": 443, "http": 80}

ANYWHERE = (ip_network("0.0.0.0/0"), ip_network("::/0"))
"""All networks, for URLs that are only parsed."""

LOCAL_SUFFIXES = (
    "localhost",
    "localdomain",
    "local",
    "localnet",
    "internal",
    "intranet",
    "private",
    "corp",
    "home",
    "lan",
    "arpa",
    "svc",
    "onion",
    "alt",
)
"""Name endings with a meaning in one network only, or without one in the public DNS:
RFC 6761, 6762 (appendix G), 7686, 8375 and 9476, ICANN's ``internal``, and Kubernetes' ``svc``."""

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?]*)(.*)", re.DOTALL)
_NAME_AND_PORT = re.compile(r"([^:\[\]]*)(?::([^:]*))?")
_IPV6_AND_PORT = re.compile(r"\[([0-9A-Fa-f:.]+)\](?::([^:]*))?")
_PORT = re.compile(r"[1-9][0-9]{0,4}")
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_CANONICAL_IPV4 = re.compile(r"(?:(?:0|[1-9][0-9]{0,2})\.){3}(?:0|[1-9][0-9]{0,2})")
_TARGET = re.compile(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/?]|%[0-9A-Fa-f]{2})*")


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """The parts of an accepted URL. ``target`` is the unchanged path and query."""

    scheme: str
    host: str
    """In lower case. An IPv6 address is compressed and has no brackets."""
    port: int
    target: str
    address: Address | None = None
    """The host as an address, or None for a name."""

    @property
    def is_address(self) -> bool:
        return self.address is not None

    @cached_property
    def origin(self) -> str:
        """The scheme, host and port."""
        return f"{self.scheme}://{self.authority}"

    @cached_property
    def authority(self) -> str:
        """The value of the Host header: the host, and the port unless it is the scheme's default."""
        host = f"[{self.host}]" if isinstance(self.address, IPv6Address) else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"


def parse_endpoint(
    url: str,
    *,
    allow_http: bool = False,
    allowed_networks: Sequence[Network] = (),
    refused_networks: Sequence[Network] = (),
) -> Endpoint:
    """Return the parts of a URL to which webhooks may be sent.

    Raise ``InvalidEndpointError`` for any other URL. Names are not resolved. An address must not be in
    ``refused_networks``, nor in the table of refused addresses unless ``allowed_networks`` contains it.
    """
    _check_characters(url)
    match = _URL.fullmatch(url)
    if match is None:
        raise InvalidEndpointError("scheme", "The URL has no scheme and host. Write it as https://host/path.")
    scheme = _accepted_scheme(match[1].lower(), allow_http)
    host, port_text = _split_authority(match[2])
    port = _accepted_port(port_text, scheme)
    address = _address_of(host)
    if address is None:
        _check_name(host)
    else:
        _check_address(address, allowed_networks, refused_networks)
    target = _accepted_target(match[3])
    return Endpoint(scheme=scheme, host=str(address or host), port=port, target=target, address=address)


def _check_characters(url: str) -> None:
    if len(url) > MAX_URL_LENGTH:
        message = f"The URL has {len(url)} characters. Use at most {MAX_URL_LENGTH}."
        raise InvalidEndpointError("length", message)
    for character in url:
        if not "!" <= character <= "~":
            message = (
                f"The URL contains the character U+{ord(character):04X}. Write international names in punycode"
                " and percent-encode every other character that is not printable ASCII."
            )
            raise InvalidEndpointError("characters", message)
    if "\\" in url:
        raise InvalidEndpointError("characters", "The URL contains a backslash. Write / or, in a query, %5C.")
    if "#" in url:
        raise InvalidEndpointError("fragment", "The URL has a fragment (#…), which is never sent. Remove it.")


def _accepted_scheme(scheme: str, allow_http: bool) -> str:
    if scheme == "https" or (scheme == "http" and allow_http):
        return scheme
    if scheme == "http":
        raise InvalidEndpointError("scheme", "The URL begins with http://. Use https://, as plain http is not allowed.")
    raise InvalidEndpointError("scheme", f"The URL begins with {scheme[:20]}://. Use https://.")


def _split_authority(authority: str) -> tuple[str, str | None]:
    if "@" in authority:
        message = "The URL contains a user name or password (…@). Remove it: deliveries are signed instead."
        raise InvalidEndpointError("userinfo", message)
    pattern = _IPV6_AND_PORT if authority.startswith("[") else _NAME_AND_PORT
    match = pattern.fullmatch(authority)
    if match is None:
        raise InvalidEndpointError(
            "host", "The URL's host is invalid. Write https://host/path or https://host:port/path."
        )
    if pattern is _IPV6_AND_PORT:
        return f"[{match[1]}]", match[2]
    return match[1].lower(), match[2]


def _accepted_port(text: str | None, scheme: str) -> int:
    default = DEFAULT_PORTS[scheme]
    if text is None:
        return default
    if _PORT.fullmatch(text):
        port = int(text)
        if port == default or 1024 <= port <= 65535:
            return port
    message = f"The URL's port {text[:10]!r} may not be used. Use {default}, or one from 1024 to 65535."
    raise InvalidEndpointError("port", message)


def _address_of(host: str) -> Address | None:
    """Return the host's address, or None for a name. Refuse a host that only some parsers accept as an address."""
    try:
        if host.startswith("["):
            return IPv6Address(host[1:-1])
        if not _NUMBER.fullmatch(host.rstrip(".").rpartition(".")[2]):
            return None
        if _CANONICAL_IPV4.fullmatch(host):
            return IPv4Address(host)
    except AddressValueError:
        pass
    message = "The URL's host looks like an address but is not one. Write 203.0.113.7 or [2001:db8::7] in full."
    raise InvalidEndpointError("host", message)


def _check_address(address: Address, allowed_networks: Sequence[Network], refused_networks: Sequence[Network]) -> None:
    reason = refusal_of_address(address, allowed_networks, refused_networks)
    if reason:
        message = f"The address {address} may not be used ({reason}). Use a host that is reachable from the internet."
        raise InvalidEndpointError("address", message)


def _check_name(name: str) -> None:
    if any(name == suffix or name.endswith(f".{suffix}") for suffix in LOCAL_SUFFIXES):
        raise InvalidEndpointError("local-name", _local_name_message(name))
    labels = name.split(".")
    if len(labels) < 2:
        message = f"The host {name[:63]!r} is not a full name. Use one with a domain, as in hooks.example.com."
        raise InvalidEndpointError("host", message)
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        message = (
            "The URL's host is not a valid name. Use parts of at most 63 letters, digits and inner hyphens,"
            " joined by single dots, 253 characters in all, with no dot at the end."
        )
        raise InvalidEndpointError("host", message)
    for label in labels:
        if label.startswith("xn--"):
            _check_punycode(label)


def _local_name_message(name: str) -> str:
    message = f"The host {name[:63]!r} is a local name. Use a host that is reachable from the internet"
    if "localhost" in name:
        return f"{message}; in development, use 127.0.0.1 and allow its network with WEBHOOKS_ALLOWED_NETWORKS."
    return f"{message}."


def _check_punycode(label: str) -> None:
    try:
        valid = idna.alabel(idna.ulabel(label)).decode("ascii") == label
    except (UnicodeError, IndexError):
        valid = False
    if not valid:
        raise InvalidEndpointError("host", f"The part {label!r} of the URL's host is not a valid international name.")


def _accepted_target(text: str) -> str:
    match = _TARGET.match(text)
    end = match.end() if match else 0
    if end != len(text):
        found = text[end : end + 3] if text[end] == "%" else text[end]
        message = f"The URL's path or query contains {found!r}. Percent-encode it, as in %7B for {{."
        raise InvalidEndpointError("characters", message)
    return text if text.startswith("/") else f"/{text}"
