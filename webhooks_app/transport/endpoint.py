"""The URLs and addresses to which webhooks may be sent: a strict parser, and the guard of a transport.

Connections use the parts that the parser returns, never the URL.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_address, ip_network

from ..exceptions import InvalidEndpointError
from ..reasons import ReasonText
from .base import TransportError, TransportOptions
from .errors import address_refused, name_unknown
from .international import ascii_form
from .refused_addresses import Address, Network, refusal_of_address

MAX_URL_LENGTH = 2048

MAX_ADDRESSES = 8
"""The maximum number of addresses of a name that are tried."""

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
    """The parts of an accepted URL, for connections. ``target`` is the unchanged path and query."""

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
    _check_characters(url, allow_http, allowed_networks, refused_networks)
    match = _URL.fullmatch(url)
    if match is None:
        raise _refused("scheme", "url_incomplete")
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


def _check_characters(
    url: str, allow_http: bool, allowed_networks: Sequence[Network], refused_networks: Sequence[Network]
) -> None:
    if len(url) > MAX_URL_LENGTH:
        raise _refused("length", "url_too_long", number=str(len(url)), limit=str(MAX_URL_LENGTH))
    if not url.isascii() and (form := ascii_form(url)):
        # The form is suggested only if it is allowed; otherwise the error is about that.
        parse_endpoint(
            form, allow_http=allow_http, allowed_networks=allowed_networks, refused_networks=refused_networks
        )
        raise InvalidEndpointError("characters", ReasonText("url_international", url=form), suggestion=form)
    for character in url:
        if not "!" <= character <= "~":
            raise _refused("characters", "url_character", character=f"U+{ord(character):04X}")
    if "\\" in url:
        raise _refused("characters", "url_backslash")
    if "#" in url:
        raise _refused("fragment", "url_fragment")


def _accepted_scheme(scheme: str, allow_http: bool) -> str:
    if scheme == "https" or (scheme == "http" and allow_http):
        return scheme
    if scheme == "http":
        raise _refused("scheme", "url_http")
    raise _refused("scheme", "url_scheme", scheme=scheme[:20])


def _split_authority(authority: str) -> tuple[str, str | None]:
    if "@" in authority:
        raise _refused("userinfo", "url_userinfo")
    pattern = _IPV6_AND_PORT if authority.startswith("[") else _NAME_AND_PORT
    match = pattern.fullmatch(authority)
    if match is None:
        raise _refused("host", "url_host")
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
    raise _refused("port", "url_port", port=repr(text[:10]), default=str(default))


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
    raise _refused("host", "url_like_address")


def _check_address(address: Address, allowed_networks: Sequence[Network], refused_networks: Sequence[Network]) -> None:
    reason = refusal_of_address(address, allowed_networks, refused_networks)
    if reason:
        raise _refused("address", "url_address", address=str(address), reason=reason)


def _check_name(name: str) -> None:
    if any(name == suffix or name.endswith(f".{suffix}") for suffix in LOCAL_SUFFIXES):
        raise _refused("local-name", "url_local_name", host=repr(name[:63]))
    labels = name.split(".")
    if len(labels) < 2:
        raise _refused("host", "url_short_name", host=repr(name[:63]))
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise _refused("host", "url_name")
    for label in labels:
        if label.startswith("xn--"):
            _check_punycode(label)


def _check_punycode(label: str) -> None:
    import idna  # noqa: PLC0415 - its tables take memory in every process, for rare names

    try:
        valid = idna.alabel(idna.ulabel(label)).decode("ascii") == label
    except (UnicodeError, IndexError):
        valid = False
    if not valid:
        raise _refused("host", "url_punycode", label=repr(label))


def _accepted_target(text: str) -> str:
    match = _TARGET.match(text)
    end = match.end() if match else 0
    if end != len(text):
        found = text[end : end + 3] if text[end] == "%" else text[end]
        raise _refused("characters", "url_target", found=repr(found))
    return text if text.startswith("/") else f"/{text}"


def _refused(rule: str, code: str, **params: str) -> InvalidEndpointError:
    return InvalidEndpointError(rule, ReasonText(code, **params))


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
