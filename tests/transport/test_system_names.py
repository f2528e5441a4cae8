"""Name resolution by the operating system, without its search list."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from webhooks_app.transport import system_names
from webhooks_app.transport.system_names import resolve_by_system


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names passed to the system's resolver."""
    names: list[str] = []

    def getaddrinfo(host: str, _port: int, **_: Any) -> list[Any]:
        names.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.9", 443))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return names


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A hosts file."""
    path = tmp_path / "hosts"
    path.write_text(
        "127.0.0.1 localhost\n\n192.0.2.1\tHooks.Example.com hooks # ours\n2001:db8::1 hooks.example.com\nodd\n"
    )
    monkeypatch.setattr(system_names, "HOSTS_FILE", str(path))
    return path


@pytest.mark.parametrize("name", ["redis.default", "public.example.com", "public.example.com."])
def test_a_name_is_resolved_as_absolute(asked: list[str], name: str) -> None:
    assert resolve_by_system(name, 443) == ["192.0.2.9"]
    assert asked == [f"{name.rstrip('.')}."]


@pytest.mark.parametrize("name", ["hooks.example.com", "HOOKS.example.com"])
def test_names_in_the_hosts_file_are_resolved(hosts: Path, asked: list[str], name: str) -> None:
    assert resolve_by_system(name, 443) == ["192.0.2.1", "2001:db8::1"]
    assert asked == []


def test_a_change_of_the_hosts_file_takes_effect(hosts: Path, asked: list[str]) -> None:
    resolve_by_system("hooks.example.com", 443)
    hosts.write_text("192.0.2.55 hooks.example.com\n")

    assert resolve_by_system("hooks.example.com", 443) == ["192.0.2.55"]


def test_a_machine_without_a_hosts_file_resolves_names(hosts: Path, asked: list[str]) -> None:
    hosts.unlink()

    assert resolve_by_system("hooks.example.com", 443) == ["192.0.2.9"]


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_an_address_is_returned_unchanged(asked: list[str], address: str) -> None:
    assert resolve_by_system(address, 80) == [address]
    assert asked == []
