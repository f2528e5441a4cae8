"""Name resolution by the operating system, without its search list."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from functools import lru_cache
from ipaddress import ip_address
from pathlib import Path
from typing import TypeAlias

HOSTS_FILE = "/etc/hosts"

Resolve: TypeAlias = Callable[[str, int], Sequence[str]]
"""A function that returns the addresses of a host name and port by preference, or raises OSError."""


def resolve_by_system(host: str, port: int) -> list[str]:
    """Return the addresses of an absolute name by preference. Raise OSError if there are none.

    The machine's search list (``search`` in resolv.conf) is ignored, so that a name has the same meaning on every
    machine. The hosts file is used.
    """
    if is_address(host):
        return [host]
    # With the trailing dot the resolver ignores the search list, and also the hosts file.
    return addresses_in_hosts_file(host) or resolve_with_search_list(f"{host.rstrip('.')}.", port)


def resolve_with_search_list(host: str, port: int) -> list[str]:
    """Return the addresses that any other program on the machine would use. Raise OSError if there are none."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror:
        socket.socket().close()  # raises the true error if the process has no more file descriptors
        raise
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))


def addresses_in_hosts_file(host: str) -> list[str]:
    """Return the addresses of the name in the hosts file, in their order there."""
    try:
        state = Path(HOSTS_FILE).stat()
        entries = _entries(HOSTS_FILE, state.st_mtime_ns, state.st_size)
    except OSError:
        return []
    return list(entries.get(host.rstrip(".").lower(), ()))


@lru_cache(maxsize=1)
def _entries(path: str, _modified_at: int, _size: int) -> dict[str, list[str]]:
    entries: dict[str, list[str]] = {}
    for line in Path(path).read_text(errors="replace").splitlines():
        address, *names = line.partition("#")[0].split() or [""]
        if is_address(address):
            for name in names:
                entries.setdefault(name.lower(), []).append(address)
    return entries


def is_address(text: str) -> bool:
    """Return True for an IP address, False for a name."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
