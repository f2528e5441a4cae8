"""The rule by which owners and their webhooks share slots, after every step of arbitrary histories.

W slots, of which n owners hold any. No slot is taken back before its request ends.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ..support.slots import MANY, FakeWorker, claim_of
from .conftest import ManualClock

OWNERS = [f"owner-{number}" for number in range(9)]
PACES = [True, False, None]


class Sharing(RuleBasedStateMachine):
    @initialize(
        window=st.sampled_from([1, 2, 3, 4, 5, 7, 8, 16, 64]),
        webhooks=st.sampled_from([1, 2, 3, None]),
        paces=st.lists(st.sampled_from(PACES), min_size=3),
    )
    def start(self, window, webhooks, paces):
        self.window = window
        self.worker = FakeWorker(ManualClock(), window, cap=MANY)
        self.owners = {}
        self.claims = []
        for owner in OWNERS:
            for number in range(webhooks or min(window // 2 + 2, 12)):
                webhook = f"{owner} {number}"
                self.owners[webhook] = owner
                self.worker.know(webhook, owner, paces[len(self.owners) % len(paces)])

    # Histories

    @rule(data=st.data(), number=st.integers(1, 20))
    def begin(self, data, number):
        before = self.beyond()
        self.claims += self.worker.begin(self.any_webhook(data), number)
        if len(self.held()) > 1 and self.beyond() > before:
            assert self.beyond() <= self.most_beyond()

    @rule(data=st.data(), number=st.integers(2, 6))
    def begin_several_in_one_claim(self, data, number):
        webhooks = data.draw(st.lists(st.sampled_from(list(self.owners)), min_size=2, max_size=number, unique=True))
        before = self.beyond()
        for ask in self.worker.slots.asks(webhooks, self.window, self.worker.clock.monotonic()):
            claims = [claim_of(ask.webhook_id) for _ in range(ask.room)]
            self.worker.slots.take(claims, self.worker.clock.monotonic())
            self.claims += claims
        if len({claim.webhook_id for claim in self.claims}) > 1 and self.beyond() > before:
            assert self.beyond() <= self.most_beyond()

    @rule()
    def forget_the_unused_and_learn_them_again(self):
        for _ in range(2):
            self.worker.clock.advance(3600)
            self.worker.slots.forget_unused(self.worker.clock.monotonic())
        assert all(self.worker.slots.is_known(claim.webhook_id) for claim in self.claims)
        for webhook, owner in self.owners.items():
            if not self.worker.slots.is_known(webhook):
                self.worker.know(webhook, owner, is_fast=True)

    @rule(data=st.data())
    def begin_all_of_an_owner(self, data):
        owner = data.draw(st.sampled_from(OWNERS))
        for webhook in self.webhooks_of(owner):
            self.claims += self.worker.begin(webhook)

    @rule(seconds=st.sampled_from([0.4, 1.1]))
    def become_late(self, seconds):
        self.worker.clock.advance(seconds)

    @rule(data=st.data(), seconds=st.sampled_from([0.1, 30]))
    @precondition(lambda self: self.claims)
    def end(self, data, seconds):
        claim = data.draw(st.sampled_from(self.claims))
        self.claims.remove(claim)
        self.worker.end([claim], seconds)

    @rule(seconds=st.sampled_from([0.1, 30]))
    def end_all(self, seconds):
        self.worker.end(self.claims, seconds)
        self.claims = []

    @rule(data=st.data(), is_fast=st.sampled_from(PACES))
    def read_the_pace_from_another_worker_or_reset_it_for_a_new_url(self, data, is_fast):
        self.worker.slots.refresh([(self.any_webhook(data), is_fast)])

    @rule(data=st.data())
    def release_all_of_an_owner_unsent(self, data):
        owner = data.draw(st.sampled_from(OWNERS))
        self.worker.slots.give_back([claim for claim in self.claims if self.owner_of(claim) == owner])
        self.claims = [claim for claim in self.claims if self.owner_of(claim) != owner]

    # What always holds

    @invariant()
    def free_and_held_slots_are_all_slots(self):
        assert self.worker.slots.free >= 0
        assert self.worker.slots.free + len(self.claims) == self.window
        assert len(self.worker.slots) == len(self.claims)

    @invariant()
    def slots_beyond_the_first_of_each_owner_are_at_most_half(self):
        assert sum(held - 1 for held in self.held().values()) <= self.window / 2

    @invariant()
    def an_owner_without_slots_is_granted_one_while_one_is_free(self):
        held = self.held()
        if len(held) < self.window / 2:
            assert self.worker.slots.free
        if self.worker.slots.free:
            assert all(self.room(self.webhooks_of(owner)) for owner in OWNERS if owner not in held)

    @invariant()
    def the_last_free_slot_is_for_an_owner_without_slots(self):
        if self.worker.slots.free == 1:
            assert not any(self.worker.room(webhook) for owner in self.held() for webhook in self.webhooks_of(owner))

    @invariant()
    def slots_beyond_the_first_of_each_webhook_are_at_most_half_of_an_owner_s_share(self):
        held, by_webhook = self.held(), Counter(claim.webhook_id for claim in self.claims)
        share = self.window // 2 + 1
        for owner in held:
            assert held[owner] - sum(self.owners[webhook] == owner for webhook in by_webhook) <= share / 2

    @invariant()
    def further_slots_leave_a_first_one_for_each_fast_webhook(self):
        held, by_webhook = self.held(), Counter(claim.webhook_id for claim in self.claims)
        if len(held) < self.window / 2 and self.beyond() <= self.window * 7 // 16 - (len(self.owners) - len(OWNERS)):
            assert all(
                self.worker.room(pk)
                for owner in held
                for pk in self.webhooks_of(owner)
                if not by_webhook[pk] and self.worker.rank(pk) == 2
            )

    @invariant()
    def a_webhook_without_slots_precedes_those_of_its_owner_that_are_not_faster(self):
        by_webhook = Counter(claim.webhook_id for claim in self.claims)
        for owner in self.held():
            webhooks = self.webhooks_of(owner)
            ranks = [self.worker.rank(pk) for pk in webhooks if by_webhook[pk] and self.worker.room(pk)]
            least = min(ranks, default=3)
            assert all(self.worker.room(pk) for pk in webhooks if not by_webhook[pk] and self.worker.rank(pk) >= least)

    @invariant()
    def a_webhook_without_slots_is_granted_one_while_few_of_a_sole_owner_hold_any(self):
        held, by_webhook = self.held(), Counter(claim.webhook_id for claim in self.claims)
        if len(held) == 1 and len(by_webhook) < self.window / 4:
            (owner,) = held
            assert all(self.worker.room(pk) for pk in self.webhooks_of(owner) if not by_webhook[pk])

    @rule(data=st.data())
    def a_sole_owner_of_fast_webhooks_reaches_half(self, data):
        self.end_all(0.1)
        webhooks = self.webhooks_of(data.draw(st.sampled_from(OWNERS)))
        if len(webhooks) < self.window // 2 + 2:
            return
        for webhook in webhooks:
            self.worker.end(self.worker.begin(webhook, 1), 0.1)
        for webhook in webhooks:
            self.claims += self.worker.begin(webhook)
        assert len(self.claims) >= self.window / 2

    @rule(data=st.data(), is_fast=st.booleans())
    def a_sole_webhook_reaches_a_quarter(self, data, is_fast):
        webhook = self.any_webhook(data)
        if all(claim.webhook_id == webhook for claim in self.claims):
            self.worker.end(self.worker.begin(webhook, 1), 0.1 if is_fast else 30)
            before = len(self.claims)
            for _ in range(self.window):  # a slow one at most doubles
                self.claims += self.worker.begin(webhook)
            if self.worker.has_result(webhook):
                assert len(self.claims) >= self.window / 4
            else:  # of a new webhook one is open, and of one with a new URL those that it had
                assert len(self.claims) == before

    @rule(data=st.data(), is_fast=st.sampled_from(PACES))
    def a_pace_counts_against_no_other_webhook(self, data, is_fast):
        turning = self.any_webhook(data)
        others = [webhook for webhook in self.owners if webhook != turning]
        self.worker.room(turning)  # takes note of late requests
        before = [self.worker.room(webhook) for webhook in others]

        self.worker.slots.refresh([(turning, is_fast)])

        assert [self.worker.room(webhook) for webhook in others] == before

    def beyond(self):
        """Return the number of slots beyond the first of each webhook."""
        return len(self.claims) - len({claim.webhook_id for claim in self.claims})

    def most_beyond(self):
        """Return how many of these slots leave a first one for each known webhook, but at least a quarter."""
        return max((1 + self.window // 2) // 2, self.window * 7 // 16 - (len(self.owners) - len(OWNERS)))

    def held(self):
        """Return the number of slots of each owner that holds any."""
        return Counter(map(self.owner_of, self.claims))

    def owner_of(self, claim):
        return self.owners[claim.webhook_id]

    def webhooks_of(self, owner):
        return [webhook for webhook in self.owners if self.owners[webhook] == owner]

    def any_webhook(self, data):
        return data.draw(st.sampled_from(list(self.owners)))

    def room(self, webhooks):
        return all(self.worker.room(webhook) for webhook in webhooks)


TestSharing = Sharing.TestCase
TestSharing.settings = settings(max_examples=60, stateful_step_count=30, deadline=timedelta(seconds=10))


@pytest.mark.parametrize("window", [5, 7, 8, 16, 64])
def test_a_sole_webhook_has_one_request_until_its_first_result(clock, window):
    worker = FakeWorker(clock, window, cap=MANY)
    worker.know("webhook")

    first = worker.begin("webhook", 1)

    assert len(first) == 1
    assert worker.begin("webhook") == []
    worker.end(first, 0.1)
    assert len(worker.begin("webhook")) >= window / 4


@pytest.mark.parametrize("window", [5, 7, 8, 16, 64])
def test_a_sole_webhook_with_a_new_url_gets_no_further_request_before_a_result(clock, window):
    worker = FakeWorker(clock, window, cap=MANY)
    worker.know("webhook", is_fast=True)
    assert len(worker.begin("webhook")) > 1

    worker.slots.refresh([("webhook", None)])

    assert worker.begin("webhook") == []


def begin_and_become_late(worker, owner, webhooks, *, is_fast, each=50):
    for number in range(webhooks):
        worker.know(f"{owner} {number}", owner, is_fast)
    for number in range(webhooks):
        worker.begin(f"{owner} {number}", each)
    worker.clock.advance(2)


@pytest.mark.parametrize("is_fast", PACES)
def test_new_webhooks_that_become_late_refuse_no_slow_receiver(clock, is_fast):
    worker = FakeWorker(clock, window=64)
    for number in range(28):
        begin_and_become_late(worker, f"owner-{number}", 1, is_fast=None)
    worker.know("other", "bob", is_fast)

    assert worker.begin("other")


@pytest.mark.parametrize(("window", "webhooks"), [(2000, 60), (200, 30)])
@pytest.mark.parametrize("is_fast", PACES)
def test_proven_webhooks_that_hang_refuse_no_other_owner(clock, window, webhooks, is_fast):
    worker = FakeWorker(clock, window)
    begin_and_become_late(worker, "alice", webhooks, is_fast=True)
    worker.know("other", "bob", is_fast)

    assert worker.slots.free >= window / 2 - 1
    assert worker.begin("other")


@pytest.mark.parametrize("owners", [10, 31])
def test_an_outage_at_many_owners_refuses_no_other(clock, owners):
    worker = FakeWorker(clock, window=64)
    for _ in range(2):
        for number in range(owners):
            begin_and_become_late(worker, f"owner-{number}", 5, is_fast=True)
    worker.know("other", "bob")

    assert worker.begin("other")


def test_the_next_freed_slot_is_for_an_owner_without_any(clock):
    worker = FakeWorker(clock, window=8)
    claims = []
    for owner in range(8):
        worker.know(f"webhook-{owner}", owner, is_fast=True)
        claims += worker.begin(f"webhook-{owner}", 1)
    worker.know("other", "bob", is_fast=False)
    assert worker.begin("other") == []

    worker.end(claims[:1], seconds=0.1)

    assert worker.begin("webhook-1") == []
    assert len(worker.begin("other")) == 1


@pytest.mark.parametrize("is_fast", [None, False])
def test_webhooks_that_hang_leave_slots_for_fast_ones_of_their_owner(clock, is_fast):
    worker = FakeWorker(clock, window=64)
    for _ in range(2):
        begin_and_become_late(worker, "alice", 200, is_fast=is_fast)
    for number in range(5):
        worker.know(f"fast-{number}", "alice", is_fast=True)

    assert all(worker.begin(f"fast-{number}", 1) for number in range(5))


def test_a_slow_webhook_and_many_new_ones_leave_a_slot_for_a_fast_one_of_their_owner(clock):
    worker = FakeWorker(clock, window=64)
    worker.know("slow", "alice", is_fast=False)
    for _ in range(8):
        worker.begin("slow")
    begin_and_become_late(worker, "alice", 40, is_fast=None)
    worker.know("fast", "alice", is_fast=True)

    assert worker.begin("fast", 1)


def test_webhooks_that_hang_at_100_owners_leave_slots_for_fast_ones_of_their_owners(clock):
    worker = FakeWorker(clock, window=2000)
    for number in range(100):
        for webhook in range(5):
            worker.know(f"owner-{number} {webhook}", number, is_fast=True)
    for webhook in (0, 0, 1, 0, 1, 2, 0, 1, 2, 3, 0, 1, 2, 3, 4):
        for number in range(100):
            worker.begin(f"owner-{number} {webhook}", 1)
        worker.clock.advance(2)
    for number in range(5):
        worker.know(f"fast-{number}", number, is_fast=True)

    assert all(worker.begin(f"fast-{number}", 1) for number in range(5))
