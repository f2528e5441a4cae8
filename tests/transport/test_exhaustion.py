"""Requests that fail because of the sender's machine, not the receiver."""

from __future__ import annotations

import errno
import logging
import resource
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from webhooks_app.transport import BaseTransport, errors
from webhooks_app.transport.errors import LOG_SECONDS, ExhaustionLog

from .receiver import Receiver, receiving
from .sending import answers, post, send

HOST = "hooks.example.com"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as started:
        yield started


STARVED = """
import os, resource, sys
from tests.transport.sending import post, send, transport

name, left, url, *proxy = sys.argv[1:]
sender = transport(name, **({"proxy": proxy[0]} if proxy else {}))
sender.wait(0)
free = [os.dup(0) for _ in range(int(left) + 1)]
limits = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (free[-1], limits[1]))
for fd in free:
    os.close(fd)
for _ in range(3):
    print(send(sender, post(url)).error.error_class)
resource.setrlimit(resource.RLIMIT_NOFILE, limits)
print(send(sender, post(url)).response is not None)
sender.close()
"""


def starved(name: str, left: int, *arguments: str) -> tuple[list[str], str]:
    """Send three requests with ``left`` file descriptors and one with more. Return the results and the log."""
    command = [sys.executable, "-W", "error", "-c", STARVED, name, str(left), *arguments]
    ended = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return ended.stdout.split(), ended.stderr


@pytest.fixture
def without_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open no IPv6 sockets, as a kernel with IPv6 switched off."""
    really_init = socket.socket.__init__

    def init(self: socket.socket, family: int = -1, *args: Any, **options: Any) -> None:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        really_init(self, family, *args, **options)

    monkeypatch.setattr(socket.socket, "__init__", init)


@pytest.mark.usefixtures("without_ipv6")
def test_a_receiver_with_both_address_families_is_reached_without_ipv6(
    make: Callable[..., BaseTransport], receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    sender = make(resolve=answers(hooks_example_com=["::1", "127.0.0.1"]))

    assert send(sender, post(receiver.url("/ok", HOST))).response is not None
    assert not caplog.records


@pytest.mark.usefixtures("without_ipv6")
def test_a_receiver_with_only_ipv6_is_unreachable_without_ipv6(make: Callable[..., BaseTransport]) -> None:
    sender = make(resolve=answers(hooks_example_com=["::1"]))

    exchange = send(sender, post(f"http://{HOST}:8080/"))

    assert exchange.error == errors.not_connected(f"{HOST}:8080")


@pytest.mark.parametrize(("name", "left"), [("native", 0), ("requests", 0)], indirect=["name"])
def test_missing_descriptors_are_an_internal_error_with_one_log_record(
    receiver: Receiver, name: str, left: int
) -> None:
    results, log = starved(name, left, receiver.url())

    assert results == ["internal_error"] * 3 + ["True"]
    assert log.count("\n") == 1
    assert "Too many open files" in log


def test_missing_descriptors_are_not_a_problem_of_the_name(name: str) -> None:
    assert starved(name, 0, f"http://{HOST}:8080/")[0] == ["internal_error"] * 3 + ["False"]


def test_missing_descriptors_are_not_a_problem_of_the_proxy(name: str, receiver: Receiver) -> None:
    assert starved(name, 0, receiver.url(), "http://127.0.0.1:9")[0] == ["internal_error"] * 3 + ["False"]


def test_a_further_record_counts_the_omitted_ones(caplog: pytest.LogCaptureFixture) -> None:
    now = [1000.0]
    log = ExhaustionLog(lambda: now[0])

    for _ in range(3):
        log.add(OSError(errno.EMFILE, "Too many open files"))
    now[0] += LOG_SECONDS
    log.add(OSError(errno.ENOMEM, "Cannot allocate memory"))

    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 2
    assert [message.partition(" could")[0] for message in caplog.messages] == ["1 request", "3 requests"]


@pytest.mark.parametrize(("limit", "expected"), [(150, True), (1024, False), (resource.RLIM_INFINITY, False)])
def test_a_process_with_a_low_limit_lacks_descriptors(
    monkeypatch: pytest.MonkeyPatch, limit: int, expected: bool
) -> None:
    monkeypatch.setattr(errors, "exhaustion_log", ExhaustionLog())
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))

    assert errors.lacks_descriptors(500) is expected


def test_a_process_lacks_descriptors_for_a_while_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(errors, "exhaustion_log", log := ExhaustionLog(lambda: now[0]))
    monkeypatch.setattr(resource, "getrlimit", lambda _: (10**6, 10**6))

    log.add(OSError(errno.EMFILE, "Too many open files"))
    assert errors.lacks_descriptors(500)

    now[0] = errors.SHORT_SECONDS
    assert not errors.lacks_descriptors(500)


FEW = """
import resource, sys
from tests.transport.sending import post, transport

resource.setrlimit(resource.RLIMIT_NOFILE, (150, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
sender = transport(sys.argv[1], max_in_flight=2000)
print(sender.capacity)
left, answered = 400, 0
while left or sender.in_flight:
    while left and sender.in_flight < sender.capacity:
        sender.start(post(sys.argv[2], timeout_seconds=30.0))
        left -= 1
    answered += sum(each.response is not None for each in sender.wait(1.0))
print(answered)
sender.close()
"""


@pytest.mark.parametrize(("name", "least"), [("native", 70), ("requests", 60)])
def test_a_low_limit_of_open_files_is_used_and_never_exceeded(receiver: Receiver, name: str, least: int) -> None:
    command = [sys.executable, "-W", "error", "-c", FEW, name, receiver.url()]
    ended = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)

    capacity, answered = map(int, ended.stdout.split())
    assert least <= capacity < 150
    assert answered == 400
