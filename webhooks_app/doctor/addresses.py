"""Examination of the address guard: internal addresses must be refused."""

from __future__ import annotations

from collections.abc import Iterator

from django.utils.translation import gettext as _

from ..outbound import transport_options
from ..transport import AddressGuard, TransportError
from .findings import Finding, fail, ok

MUST_REFUSE = (
    "0.0.0.0",  # noqa: S104 - an address that must be refused
    "10.0.0.1",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "168.63.129.16",
    "169.254.169.254",
    "172.16.0.1",
    "192.168.0.1",
    "224.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "2002:7f00:1::",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fec0::1",
    "ff02::1",
)
"""Loopback, private and link-local addresses, metadata services of clouds, and other notations of these."""

METADATA = frozenset(("100.100.100.200", "168.63.129.16", "169.254.169.254", "fd00:ec2::254"))
"""Metadata services of clouds, which return a machine's credentials. Webhooks never need them."""


def examine_guard(name: str) -> Iterator[Finding]:
    """Check that the address guard refuses internal addresses with the current settings."""
    options = transport_options()
    guard = AddressGuard(options)
    reachable = [
        address for address in MUST_REFUSE if not isinstance(guard.check_answer("doctor", [address]), TransportError)
    ]
    networks = ", ".join(map(str, options.allowed_networks))
    metadata = [address for address in reachable if address in METADATA]
    if metadata:
        found = _("A webhook can reach %(addresses)s, where clouds return a machine's credentials.")
        hint = _("Remove the network of this address from WEBHOOKS_ALLOWED_NETWORKS.")
        yield fail(name, found % {"addresses": ", ".join(metadata)}, hint)
    elif reachable and not networks:
        found = _("A webhook can reach %(addresses)s, which no setting allows.")
        hint = _("The guard's table was modified: reinstall the package.")
        yield fail(name, found % {"addresses": ", ".join(reachable)}, hint)
    else:
        found = _("%(refused)d of %(number)d internal test addresses are refused.")
        if networks:
            found = _("%(refused)d of %(number)d internal test addresses are refused; the settings allow %(networks)s.")
        numbers = {"refused": len(MUST_REFUSE) - len(reachable), "number": len(MUST_REFUSE)}
        yield ok(name, found % {**numbers, "networks": networks})
