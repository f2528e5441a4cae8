"""Sharing of slots between fast, unknown and slow webhooks, and between owners."""

from __future__ import annotations

import itertools
from datetime import timedelta

import pytest

from webhooks_app.delivery.slots import Slots, usual_cap

from ..support.slots import FakeWorker

CAP = 50


@pytest.fixture
def worker(clock):
    return FakeWorker(clock)


@pytest.fixture
def small(clock):
    return FakeWorker(clock, window=64)


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


def test_an_unknown_webhook_has_one_request_until_its_first_result(worker):
    worker.know("new")
    first = worker.begin("new")
    assert (len(first), worker.begin("new")) == (1, [])

    worker.end(first, seconds=0.2)

    assert len(worker.begin("new")) == CAP


@pytest.mark.parametrize("is_fast", [None, False, True])
def test_a_hanging_webhook_gets_one_request_every_two_seconds(worker, clock, is_fast):
    worker.know("other", owner="bob", is_fast=True)
    worker.begin("other", 1)
    worker.know("hanging", is_fast=is_fast)
    worker.begin("hanging", 1)
    worker.slots.refresh([("hanging", None)])

    begun = []
    for _ in range(6):
        clock.advance(1)
        begun.append(len(worker.begin("hanging")))

    assert begun == [0, 1, 0, 1, 0, 1]


def test_a_look_is_due_when_a_hanging_webhook_gets_its_next_request(worker, clock):
    worker.know("hanging")
    worker.begin("hanging")
    clock.advance(1.5)

    with_room, again_at = worker.slots.with_room(["hanging"], clock.monotonic())

    assert with_room == []
    assert 0 < again_at - clock.monotonic() <= 0.5


def test_a_hanging_webhook_gets_no_further_request_while_less_than_half_is_free(clock):
    worker = FakeWorker(clock, window=64)
    for number in range(33):
        worker.know(f"hanging-{number}", owner=number)
        worker.begin(f"hanging-{number}")
    clock.advance(2)

    assert worker.begin("hanging-0") == []
    assert worker.slots.with_room(["hanging-0"], clock.monotonic()) == ([], None)


def test_the_hanging_webhook_that_waits_longest_gets_the_next_request(clock):
    worker = FakeWorker(clock, window=16)
    names = [f"hanging-{number}" for number in range(8)]
    for name in reversed(names):
        worker.know(name, owner=name)
        worker.begin(name)
        clock.advance(0.01)
    clock.advance(2)

    asks = worker.slots.asks(names, 16, clock.monotonic())

    assert [ask.webhook_id for ask in asks] == [names[-1]]


def test_a_hanging_webhook_that_answers_again_gets_its_next_request_at_once(worker, clock):
    worker.know("recovers")
    worker.begin("recovers")
    clock.advance(2)

    for _ in range(20):
        (claim,) = worker.begin("recovers")[:1]
        worker.end([claim], seconds=0.05)

    assert len(worker.begin("recovers")) > 0


@pytest.mark.parametrize("owners", [1, 5])
def test_probes_of_hanging_webhooks_leave_slots_for_fast_ones(clock, owners):
    worker = FakeWorker(clock, window=200)
    for _ in range(15):
        for number in range(10):
            if not worker.slots.is_known(f"hanging-{number}"):
                worker.know(f"hanging-{number}", owner=number % owners)
            worker.begin(f"hanging-{number}")
        clock.advance(2)
    worker.know("fast", owner=0, is_fast=True)
    for _ in range(20):
        worker.end(worker.begin("fast", 2), seconds=0.5)
        clock.advance(0.5)

    assert len(worker.begin("fast")) >= 3


def test_a_fast_handshake_does_not_make_a_webhook_fast(worker):
    worker.know("new")

    worker.end(worker.begin("new"), seconds=0.2, kind="verification")

    assert len(worker.begin("new")) == 1


def test_slow_webhooks_of_many_owners_leave_slots_for_each_new_one(worker):
    for number in range(100):
        worker.know(f"slow-{number}", owner=number, is_fast=False)
    for _, number in itertools.product(range(10), range(100)):
        worker.begin(f"slow-{number}")
    worker.know("fast", "bob", is_fast=True)

    assert len(worker.begin("fast")) >= 20


def test_fast_webhooks_of_many_owners_that_hang_together_leave_slots_for_their_siblings(worker):
    for owner, number in itertools.product(range(100), range(5)):
        worker.know(f"{owner}-{number}", owner=str(owner), is_fast=True)
    for number, _, owner in itertools.product(range(5), range(10), range(100)):
        worker.begin(f"{owner}-{number}", 1)
    for owner in ("0", "99"):
        worker.know(f"sibling-{owner}", owner=owner, is_fast=True)
    worker.know("fast", "bob", is_fast=True)

    assert len(worker.begin("sibling-0")) >= 1
    assert len(worker.begin("sibling-99")) >= 1
    assert len(worker.begin("fast")) >= 2


def test_hanging_webhooks_of_one_owner_leave_many_slots_for_another_beside_many_idle_ones(worker):
    for number in range(60):
        worker.know(f"hanging-{number}", is_fast=True)
    for number in range(1000):
        worker.know(f"idle-{number}", owner=number // 5, is_fast=True)
    for _, number in itertools.product(range(20), range(60)):
        worker.begin(f"hanging-{number}", 1)
    worker.know("fast", "bob", is_fast=True)

    assert len(worker.begin("fast")) >= 50


def test_slow_webhooks_grow_evenly(worker):
    for number in range(3):
        worker.know(f"slow-{number}", is_fast=False)

    begun = [[len(worker.begin(f"slow-{number}")) for number in range(3)] for _ in range(4)]

    assert begun == [[1, 1, 1], [1, 1, 1], [2, 2, 2], [4, 4, 4]]


def test_a_fast_webhook_becomes_slow_after_a_second(worker, clock):
    for webhook in ("healthy", "late"):
        worker.know(webhook, is_fast=True)
        worker.begin(webhook, 3)
    before = worker.room("late")
    clock.advance(1)

    assert before > 40
    assert worker.room("late") == 3


def test_a_webhook_is_fast_again_after_a_fast_result(worker, clock):
    worker.know("moody", is_fast=True)
    late, *others = worker.begin("moody", 2)
    clock.advance(1.5)
    worker.end([late], seconds=1.5)
    assert worker.slots.to_publish() == {"moody": (1, False)}

    worker.end(others, seconds=0.9)

    assert worker.slots.to_publish() == {"moody": (0, True)}
    assert len(worker.begin("moody")) == CAP


@pytest.mark.parametrize(("window", "webhooks"), [(64, 15), (2000, 450), (10_000, 450)])
@pytest.mark.parametrize("is_fast", [True, False, None])
def test_hanging_webhooks_of_one_owner_leave_room_for_its_fast_ones(clock, window, webhooks, is_fast):
    worker = FakeWorker(clock, window=window)
    worker.know("healthy", is_fast=True)
    for second in range(30):
        for number in range(webhooks):
            if not second:
                worker.know(f"hanging-{number}", is_fast=is_fast)
            worker.begin(f"hanging-{number}")
        clock.advance(1)

    assert worker.begin("healthy")


@pytest.mark.parametrize("is_fast", [True, False, None])
@pytest.mark.parametrize("window", [64, 2000, 10_000])
def test_webhooks_of_one_owner_leave_room_for_another_owner(clock, window, is_fast):
    worker = FakeWorker(clock, window=window)
    worker.know("other", owner="bob", is_fast=is_fast)
    for second in range(30):
        for number in range(2000):
            if not second:
                worker.know(f"greedy-{number}", is_fast=is_fast)
            worker.begin(f"greedy-{number}")
        clock.advance(1)

    assert len(worker.begin("other")) >= 1


@pytest.mark.parametrize("owners", [1, 40])
def test_slow_webhooks_use_most_of_a_large_window_if_nobody_else_waits(clock, owners):
    worker = FakeWorker(clock, window=10_000)
    webhooks = [(f"slow-{number}", f"owner-{number % owners}") for number in range(400)]
    for webhook, owner in webhooks:
        worker.know(webhook, owner, is_fast=False)

    for _ in range(10):
        for webhook, _ in webhooks:
            worker.begin(webhook)
        clock.advance(1)

    assert 1000 <= worker.slots.free <= 4000


def test_two_owners_get_equal_shares(worker):
    for owner, number in itertools.product(["alice", "bob"], range(100)):
        worker.know(f"{owner}-{number}", owner=owner, is_fast=True)

    for _ in range(10):
        begun = {"alice": [], "bob": []}
        for _, number, owner in itertools.product(range(100), range(100), begun):
            begun[owner] += worker.begin(f"{owner}-{number}", 1)
        assert len(begun["alice"]) == pytest.approx(len(begun["bob"]), rel=0.05)
        for claims in begun.values():
            worker.end(claims, seconds=0.2)

    assert sum(map(len, begun.values())) > 2000 / 4


def greedy(worker, owners=100, webhooks=5):
    """Make proven webhooks hang that take all slots they can, each before the next one begins."""
    for owner, number in itertools.product(range(owners), range(webhooks)):
        worker.know(f"{owner}-{number}", owner=str(owner), is_fast=True)
    for owner, number in itertools.product(range(owners), range(webhooks)):
        worker.begin(f"{owner}-{number}")


@pytest.mark.parametrize(("owners", "webhooks"), [(100, 3), (10, 30), (30, 10), (1, 60)])
def test_greedy_webhooks_leave_a_slot_for_each_known_one_of_their_owners_and_for_new_ones(worker, owners, webhooks):
    for owner in range(owners):
        worker.know(f"known-{owner}", owner=str(owner), is_fast=True)
    greedy(worker, owners, webhooks)
    for number in range(2000 // 16 - 1):
        worker.know(f"new-{number}", owner=str(number % owners))

    assert all(worker.begin(f"known-{owner}", 1) for owner in range(owners))
    assert all(worker.begin(f"new-{number}", 1) for number in range(2000 // 16 - 1))


@pytest.mark.parametrize(("seconds", "is_fast"), [(0.05, True), (0.2, True), (1.2, False)])
@pytest.mark.parametrize("owner", ["0", "bob"])
def test_a_webhook_that_delivers_gets_further_slots_beside_greedy_ones_that_hang(worker, owner, seconds, is_fast):
    greedy(worker)
    worker.know("delivers", owner, is_fast)

    counts = []
    for _ in range(20):
        worker.clock.advance(0.1)
        claims = worker.begin("delivers", 1)
        claims += worker.begin("delivers", 1)
        counts.append(len(claims))
        worker.end(claims, seconds)

    assert counts[0] == 1
    assert counts[-1] == 2


def test_busy_webhooks_that_begin_to_hang_leave_further_slots_for_those_that_need_few(worker):
    names = [(owner, f"{owner}-{number}") for owner in range(6) for number in range(5)]
    for owner, name in names:
        worker.know(name, owner, is_fast=True)
    worker.know("delivers", 0, is_fast=True)
    for _ in range(8):
        worker.clock.advance(0.4)
        busy = [claim for _, name in names for claim in worker.begin(name, 40)]
        worker.end(busy, 0.4)
    for _ in range(2):
        for _, name in names:
            worker.begin(name)

    for _ in range(20):
        worker.clock.advance(0.1)
        claims = worker.begin("delivers", 2)
        worker.end(claims, 0.1)

    assert len(claims) == 2


def test_long_requests_earn_no_further_slots(worker):
    greedy(worker)
    worker.know("other", "bob", is_fast=False)
    for _ in range(40):
        worker.end(worker.begin("other", 1), seconds=2.1)
    worker.begin("other", 1)

    assert worker.room("other") == 0


def test_failures_earn_no_further_slots(worker):
    greedy(worker)
    worker.know("other", "0", is_fast=True)
    for _ in range(40):
        worker.end(worker.begin("other", 1), seconds=0.1, result="http_status")

    assert worker.room("other") == 1


def test_one_owner_earns_at_most_a_quarter(worker):
    for number in range(30):
        worker.know(f"busy-{number}", is_fast=True)
    for _ in range(40):
        for number in range(30):
            worker.end(worker.begin(f"busy-{number}"), seconds=0.2)
    worker.know("other", "bob", is_fast=True)
    worker.begin("other", 1)

    claims = [claim for number in range(30) for claim in worker.begin(f"busy-{number}")]

    assert 350 < len(claims) <= 500 + 30


def test_a_webhook_leaves_half_for_its_sibling_beside_another_owner(clock):
    worker = FakeWorker(clock, cap=1000)
    for webhook, owner in (("other", "bob"), ("first", "alice"), ("second", "alice")):
        worker.know(webhook, owner, is_fast=True)
        worker.begin(webhook, 1)

    begun = [len(worker.begin("first")), len(worker.begin("second"))]

    assert begun[1] == pytest.approx(begun[0] / 2, abs=1)
    assert begun[0] > 100


def test_webhooks_of_an_idle_process_are_not_alone_within_one_claim(small):
    webhooks = [f"fast-{number}" for number in range(8)]
    for webhook in webhooks:
        small.know(webhook, is_fast=True)

    asks = small.slots.asks(webhooks, 64, small.clock.monotonic())

    assert len(asks) == 8
    assert sum(ask.room for ask in asks) <= 8 + 64 // 4


def test_a_webhook_that_stops_to_deliver_loses_its_claim_to_further_slots(worker, clock):
    greedy(worker)
    worker.know("turns", "0", is_fast=True)
    for _ in range(20):
        worker.end(worker.begin("turns", 1), seconds=0.1)
    before = worker.room("turns")
    clock.advance(2)

    assert (before, worker.room("turns")) == (4, 1)


@pytest.mark.parametrize("window", [1, 2, 3])
@pytest.mark.parametrize("is_fast", [True, False, None])
def test_every_webhook_gets_a_slot_of_a_tiny_window(clock, window, is_fast):
    worker = FakeWorker(clock, window=window, cap=window)
    worker.know("only", is_fast=is_fast)
    worker.slots.cap = 1

    assert len(worker.begin("only")) == 1


def test_slots_are_shared_within_one_claim(small):
    webhooks = [f"new-{number}" for number in range(100)]
    for webhook in webhooks:
        small.know(webhook)

    asks = small.slots.asks(webhooks, 64, small.clock.monotonic())

    assert sum(ask.room for ask in asks) == 24
    assert len(small.slots.with_room(webhooks, small.clock.monotonic())[0]) == 100


def test_paces_of_other_workers_are_used_unless_outdated(worker):
    worker.know("theirs")
    worker.know("mine")
    worker.end(worker.begin("mine"), seconds=30)

    worker.slots.refresh([("theirs", True), ("mine", True), ("nobody's", True)])

    assert len(worker.begin("theirs")) == CAP
    assert worker.slots.to_publish() == {"mine": (0, False)}


def test_a_webhook_whose_stored_pace_was_reset_is_unknown_again(worker):
    worker.know("moved", is_fast=True)

    worker.slots.refresh([("moved", None)])

    assert len(worker.begin("moved")) == 1


@pytest.fixture
def apart(clock):
    """Slots of a database with one writer: claims from slow webhooks are a quarter of a second apart."""
    made = FakeWorker(clock)
    made.slots = Slots(window=2000, cap=CAP, slow_apart=timedelta(seconds=0.25))
    for name, is_fast in (("slow", False), ("another slow", False), ("new", None), ("fast", True)):
        made.know(name, is_fast=is_fast)
    return made


def test_slow_webhooks_are_left_out_for_a_while_after_a_claim_from_one(apart, clock):
    everyone = ["slow", "another slow", "new", "fast"]
    assert apart.slots.with_room(everyone, clock.monotonic()) == (everyone, None)
    apart.begin("slow", 1)

    again_at = clock.monotonic() + 0.25
    assert apart.slots.with_room(everyone, clock.monotonic()) == (["new", "fast"], again_at)

    clock.advance(0.25)
    assert apart.slots.with_room(everyone, clock.monotonic()) == (everyone, None)


def test_a_claim_from_other_webhooks_leaves_no_slow_one_out(apart):
    apart.begin("fast", 1)
    apart.begin("new", 1)

    assert apart.slots.with_room(["slow", "fast"], apart.clock.monotonic()) == (["slow", "fast"], None)


def test_a_webhook_without_claims_is_forgotten(worker, clock):
    worker.know("idle")
    worker.know("busy")
    worker.slots.forget_unused(clock.monotonic() + 3600)
    (claim,) = worker.begin("busy")

    worker.slots.forget_unused(clock.monotonic() + 7200)

    assert (worker.slots.is_known("idle"), worker.slots.is_known("busy")) == (False, True)
    worker.end([claim], seconds=0.1)


def test_a_pace_is_remembered_until_it_is_stored(worker, clock):
    worker.know("webhook")
    worker.end(worker.begin("webhook"), seconds=0.1)
    for hours in (1, 2, 3):
        worker.slots.forget_unused(clock.monotonic() + 3600 * hours)
    assert worker.slots.to_publish() == {"webhook": (0, True)}

    worker.slots.published({"webhook": (0, True)})
    worker.slots.forget_unused(clock.monotonic() + 4 * 3600)

    assert not worker.slots.is_known("webhook")


def test_a_request_in_flight_for_hours_keeps_its_slot(worker, clock):
    worker.know("webhook")
    claims = worker.begin("webhook")

    for hours in (1, 2, 3):
        worker.slots.forget_unused(clock.monotonic() + 3600 * hours)

    assert worker.slots.held_by("webhook") == 1
    worker.end(claims, seconds=0.1)
    assert worker.slots.held_by("webhook") == 0
