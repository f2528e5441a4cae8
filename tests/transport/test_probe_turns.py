"""Handshakes and test events to one address are postponed beyond a rate, and owners take turns."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address

import pytest

from webhooks_app.transport import BaseTransport, Request
from webhooks_app.transport.probe_turns import ProbeTurns

from .receiver import receiving
from .sending import answers, post, send_all


class Time:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class FakeProbes:
    """Turns at one request a second. Requests return on demand."""

    def __init__(self) -> None:
        self.time = Time()
        self.turns = ProbeTurns(1.0, clock=self.time)
        self.sent: list[str] = []

    def ask(self, probe: str, owner: str = "alice", addresses: tuple[str, ...] = ("192.0.2.1",)) -> float:
        request = Request("https://example.com", (), b"", 5.0, owner=owner, probe=probe)
        seconds = self.turns.seconds_to_wait(request, [ip_address(address) for address in addresses])
        if not seconds:
            self.sent.append(probe)
        return seconds

    def run(self, probes: dict[str, str], seconds: int) -> None:
        """Repeat the probes of these owners until they are sent."""
        back = dict.fromkeys(probes, self.time.now)
        for _ in range(seconds * 10 + 1):
            for probe, at in sorted(back.items(), key=lambda item: item[1]):
                if at <= self.time.now:
                    back[probe] = self.time.now + self.ask(probe, probes[probe])
                    if probe in self.sent:
                        del back[probe]
            self.time.now += 0.1


@pytest.fixture
def line() -> FakeProbes:
    return FakeProbes()


def test_the_rate_of_an_address_follows_a_burst_of_one_second(line: FakeProbes) -> None:
    line.run({f"a{number}": "alice" for number in range(10)}, seconds=5)

    assert len(line.sent) in (6, 7)


def test_each_postponed_request_returns_once(line: FakeProbes) -> None:
    waits = [line.ask(f"a{number}") for number in range(6)]

    assert waits == pytest.approx([0, 0, 1, 2, 3, 4])


def test_an_owner_with_one_request_does_not_wait_for_all_of_another(line: FakeProbes) -> None:
    for number in range(60):
        line.ask(f"a{number}")

    assert line.ask("b", "bob") == pytest.approx(2)


def test_owners_take_turns(line: FakeProbes) -> None:
    probes = {f"a{number}": "alice" for number in range(40)} | {f"b{number}": "bob" for number in range(5)}

    line.run(probes, seconds=12)

    assert len([probe for probe in line.sent if probe[0] == "b"]) == 5
    assert 12 <= len(line.sent) <= 14


def test_every_address_of_a_name_counts(line: FakeProbes) -> None:
    for number in range(2):
        line.ask(f"a{number}", addresses=("192.0.2.1", "192.0.2.2"))

    assert line.ask("a2", addresses=("192.0.2.1",)) > 0
    assert line.ask("a3", addresses=("192.0.2.2",)) > 0


def test_a_new_address_of_each_name_does_not_evade_the_rate(line: FakeProbes) -> None:
    waits = [line.ask(f"a{number}", f"owner{number}", ("192.0.2.1", f"198.51.100.{number}")) for number in range(10)]

    assert waits.count(0.0) == 2


def test_requests_with_common_addresses_do_not_block_each_other(line: FakeProbes) -> None:
    first, second, third = "192.0.2.1", "192.0.2.2", "192.0.2.3"
    addresses = [(first, second), (second, third), (first, third)]
    back = {f"p{number}": 0.0 for number in range(30)}

    for _ in range(600):
        for number, (probe, at) in enumerate(list(back.items())):
            if at <= line.time.now:
                back[probe] = line.time.now + line.ask(probe, f"owner{probe}", addresses[number % 3])
        back = {probe: at for probe, at in back.items() if probe not in line.sent}
        line.time.now += 0.1

    assert not back


def test_addresses_are_counted_separately(line: FakeProbes) -> None:
    for number in range(10):
        line.ask(f"a{number}")

    assert line.ask("a10", addresses=("192.0.2.2",)) == 0


def test_a_request_that_does_not_return_blocks_no_other(line: FakeProbes) -> None:
    for number in range(10):
        line.ask(f"a{number}")
    line.time.now += 12

    assert line.ask("b", "bob") == 0


def test_addresses_without_probes_are_forgotten(line: FakeProbes) -> None:
    for number in range(250):
        line.ask(f"a{number}", addresses=(f"192.0.2.{number}",))
        line.time.now += 3

    assert len(line.turns._lines) < 3


@pytest.mark.parametrize("host", ["127.0.0.1", "host{}.example.com"], ids=["address", "names"])
def test_a_postponed_request_sends_nothing(make: Callable[..., BaseTransport], host: str) -> None:
    names = {f"host{number}_example_com": ["127.0.0.1"] for number in range(5)}
    sender = make(probes_per_second=1, resolve=answers(**names))
    with receiving() as receiver:
        urls = [receiver.url(host=host.format(number)) for number in range(5)]

        exchanges = send_all(sender, [post(url, probe=f"dlv_{number}") for number, url in enumerate(urls)])

    assert len(receiver.requests) == len([exchange for exchange in exchanges if exchange.response]) == 2
    postponed = [exchange for exchange in exchanges if exchange.postponed_seconds]
    assert [(exchange.response, exchange.error, exchange.peer) for exchange in postponed] == [(None, None, "")] * 3


def test_events_are_not_limited(make: Callable[..., BaseTransport]) -> None:
    sender = make(probes_per_second=1)
    with receiving() as receiver:
        exchanges = send_all(sender, [post(receiver.url()) for _ in range(20)])

    assert [each.response is not None for each in exchanges] == [True] * 20
    assert len(receiver.requests) == 20
