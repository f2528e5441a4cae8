"""Sharing of slots between fast, unknown and slow webhooks, and between owners."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest

from webhooks_app.delivery.slots import Slots, usual_cap

CAP = 50
_numbers = itertools.count(1)


class Desk:
    """Slots of one worker, with claims in place of rows."""

    def __init__(self, clock, window=2000, cap=CAP):
        self.clock = clock
        self.slots = Slots(clock=clock, window=window, cap=min(cap, window // 4))

    def know(self, webhook, owner="alice", is_fast=None):
        self.slots.learn(webhook, owner, is_fast)

    def begin(self, webhook, number=1_000_000, limit=1_000_000):
        """Start as many requests as permitted, up to the number. Return their claims."""
        asks = self.slots.asks([webhook], limit)
        room = min([number, *(min(ask.room, ask.cap - ask.own) for ask in asks)]) if asks else 0
        claims = [claim_of(webhook) for _ in range(room)]
        self.slots.take(claims)
        for claim in claims:
            self.slots.begin(claim, self.clock.monotonic())
        return claims

    def end(self, claims, seconds, kind="event"):
        attempt = SimpleNamespace(duration_ms=round(1000 * seconds))
        self.slots.note([(claim_of(claim.pick.webhook_id, kind), attempt, None, None) for claim in claims])
        self.slots.give_back(claims)


def claim_of(webhook, kind="event"):
    pick = SimpleNamespace(
        webhook_id=webhook, delivery_id=f"dlv_{next(_numbers)}", number=1, kind=kind, lost_since=None
    )
    return SimpleNamespace(pick=pick)


@pytest.fixture
def desk(clock):
    return Desk(clock)


@pytest.fixture
def small(clock):
    return Desk(clock, window=64)


@pytest.mark.parametrize(
    ("window", "configured", "cap"),
    [
        pytest.param(2000, 50, 50, id="as configured"),
        pytest.param(64, 50, 16, id="a quarter of a small window"),
        pytest.param(3, 50, 1, id="at least one"),
        pytest.param(2000, 1, 1, id="configured as one"),
    ],
)
def test_a_webhook_uses_at_most_a_quarter_of_a_process(window, configured, cap):
    assert usual_cap(window, configured) == cap


def test_an_unknown_webhook_has_one_request_until_its_first_result(desk):
    desk.know("new")
    first = desk.begin("new")
    assert (len(first), desk.begin("new")) == (1, [])

    desk.end(first, seconds=0.2)

    assert len(desk.begin("new")) == CAP


def test_an_unknown_hanging_webhook_gets_no_second_request(desk, clock):
    desk.know("hanging")
    desk.begin("hanging")
    clock.advance(20)

    assert desk.begin("hanging") == []


def test_a_fast_handshake_does_not_make_a_webhook_fast(desk):
    desk.know("new")

    desk.end(desk.begin("new"), seconds=0.2, kind="verification")

    assert len(desk.begin("new")) == 1


def test_slow_webhooks_share_a_quarter_of_the_window(desk):
    for number in range(100):
        desk.know(f"slow-{number}", owner=number, is_fast=False)

    open_at_once = sum(len(desk.begin(f"slow-{number}")) for number in range(100) for _ in range(10))

    assert 400 < open_at_once <= 500


def test_a_fast_webhook_becomes_slow_after_a_second(small, clock):
    for number in range(3):
        small.know(f"fast-{number}", owner=number, is_fast=True)
        small.begin(f"fast-{number}")
    open_before = len(small.slots)
    clock.advance(1)

    assert open_before > 16
    assert small.begin("fast-0", 1) == []


def test_a_webhook_is_fast_again_after_a_fast_result(desk, clock):
    desk.know("moody", is_fast=True)
    late, *others = desk.begin("moody", 2)
    clock.advance(1.5)
    desk.end([late], seconds=1.5)
    assert desk.slots.changed_paces() == {"moody": False}

    desk.end(others, seconds=0.9)

    assert desk.slots.changed_paces() == {"moody": True}
    assert len(desk.begin("moody")) == CAP


@pytest.mark.parametrize("window", [64, 2000])
def test_hanging_webhooks_of_one_owner_leave_room_for_its_fast_ones(clock, window):
    desk = Desk(clock, window=window)
    desk.know("healthy", is_fast=True)
    for second in range(30):
        for number in range(100):
            if not second:
                desk.know(f"hanging-{number}")
            desk.begin(f"hanging-{number}")
        clock.advance(1)

    assert len(desk.begin("healthy")) >= 8


def test_formerly_fast_hanging_webhooks_leave_one_slot_for_each_other_webhook(small):
    for number in range(20):
        small.know(f"hanging-{number}", is_fast=True)
        small.begin(f"hanging-{number}", 3)
    small.know("healthy", is_fast=True)

    assert len(small.begin("healthy")) == 1


@pytest.mark.parametrize("is_fast", [True, False, None])
@pytest.mark.parametrize("window", [64, 2000])
def test_webhooks_of_one_owner_leave_room_for_another_owner(clock, window, is_fast):
    desk = Desk(clock, window=window)
    desk.know("other", owner="bob", is_fast=is_fast)
    for second in range(30):
        for number in range(2000):
            if not second:
                desk.know(f"greedy-{number}", is_fast=is_fast)
            desk.begin(f"greedy-{number}")
        clock.advance(1)

    assert len(desk.begin("other")) >= 1


def test_two_owners_get_equal_shares(desk):
    for owner, number in itertools.product(["alice", "bob"], range(100)):
        desk.know(f"{owner}-{number}", owner=owner, is_fast=True)

    begun = {"alice": 0, "bob": 0}
    for _, number, owner in itertools.product(range(100), range(100), begun):
        begun[owner] += len(desk.begin(f"{owner}-{number}", 1))

    assert begun["alice"] == pytest.approx(begun["bob"], rel=0.05)
    assert 0.8 * 2000 < sum(begun.values()) < 0.9 * 2000


@pytest.mark.parametrize("window", [1, 2, 3])
@pytest.mark.parametrize("is_fast", [True, False, None])
def test_every_webhook_gets_a_slot_of_a_tiny_window(clock, window, is_fast):
    desk = Desk(clock, window=window, cap=window)
    desk.know("only", is_fast=is_fast)
    desk.slots.cap = 1

    assert len(desk.begin("only")) == 1


def test_slots_are_shared_within_one_claim(small):
    webhooks = [f"new-{number}" for number in range(100)]
    for webhook in webhooks:
        small.know(webhook)

    asks = small.slots.asks(webhooks, 64)

    assert sum(ask.room for ask in asks) == 28
    assert len(small.slots.with_room(webhooks)) == 100


def test_paces_of_other_workers_are_used_unless_outdated(desk):
    desk.know("theirs")
    desk.know("mine")
    desk.end(desk.begin("mine"), seconds=30)

    desk.slots.refresh([("theirs", True), ("mine", True), ("nobody's", True)])

    assert len(desk.begin("theirs")) == CAP
    assert desk.slots.changed_paces() == {"mine": False}


def test_a_webhook_whose_stored_pace_was_reset_is_unknown_again(desk):
    desk.know("moved", is_fast=True)

    desk.slots.refresh([("moved", None)])

    assert len(desk.begin("moved")) == 1
