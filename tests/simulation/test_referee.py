"""Each promise is broken by some fault in the code, and the referee notices it."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from webhooks_app.delivery import liveness, outcome, recording, sending
from webhooks_app.delivery.claim import Lane
from webhooks_app.delivery.slots import Slots
from webhooks_app.models.limits import RateLimit
from webhooks_app.retry import BaseRetryPolicy

from ..mutations.__main__ import problem_of
from .histories import outcome_of
from .plan import plan_of
from .sabotages import SABOTAGES
from .store import Store

HISTORIES = 150

_next_attempt_at = BaseRetryPolicy.next_attempt_at
_hold = Slots._hold
_room = Lane.room


def retry_early(self, number, failed_at, **options):
    found = _next_attempt_at(self, number, failed_at, **options)
    return found and failed_at + (found - failed_at) / 3


def retry_for_ever(result, *, ended_at, **options):
    if result is outcome.Result.SUCCEEDED:
        return outcome.NOTHING_MORE
    return outcome.NextStep(state=outcome.State.PENDING, next_attempt_at=ended_at + timedelta(seconds=30))


def free_too_many(self, webhook, number):
    _hold(self, webhook, number - (number < 0))


def keep_entries(self, entry):
    """Remove no queue entry."""


FAULTS = {
    "attempts": (sending, "next_step", retry_for_ever),
    "early": (BaseRetryPolicy, "next_attempt_at", retry_early),
    "committed": (Store, "_remove", keep_entries),
    "permission": (Lane, "for_handshake", lambda self: self),
    "limit": (Lane, "room", lambda self, share, in_flight, now: _room(self, share, 0, now)),
    "rate": (RateLimit, "allowance", lambda self, now: 1000),
    "order": (recording, "_following", lambda using, claims: ()),
    "results": (sending, "outcome_of", lambda exchange, *challenge, **options: outcome.SUCCESS),
    "lost": (liveness, "DEAD_AFTER_SECONDS_ALONE", 0.5),
    "slots": (Slots, "_hold", free_too_many),
    "lanes": (Store, "publish", lambda self, worker, numbers, leased_until: None),
    "liveness": (recording.Recorder, "put", lambda self, finished: False),
}


@pytest.mark.long
@pytest.mark.parametrize("promise", FAULTS)
def test_a_broken_promise_is_noticed(monkeypatch, promise):
    monkeypatch.setattr(*FAULTS[promise])

    broken = Counter()
    for seed in range(HISTORIES):
        broken[outcome_of(plan_of(seed)).invariant] += 1
        if broken[promise]:
            break

    assert broken[promise], broken


@pytest.mark.parametrize("sabotage", SABOTAGES, ids=lambda sabotage: sabotage.name)
def test_a_sabotage_can_be_made(sabotage):
    assert not problem_of(sabotage)
