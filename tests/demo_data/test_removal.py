"""Removal of webhooks from the roll-ups."""

from __future__ import annotations

import pytest

from demo_data.removal import remove
from webhooks_app.maintenance.rollups.folding import fold
from webhooks_app.maintenance.rollups.reading import ever
from webhooks_app.models import Rollup

from ..maintenance.rollups.conftest import NOW, make_tally, rollups

pytestmark = pytest.mark.django_db

ONE = {"succeeded_at_once": 3, "given_up": 1}
OTHER = {"succeeded_at_once": 2, "succeeded_later": 5}


def test_the_totals_are_those_of_the_remaining_webhooks(webhook_id, other_id):
    make_tally(NOW, **{webhook_id: ONE, other_id: OTHER})
    fold("default")

    remove("default", [webhook_id])

    assert not Rollup.objects.filter(webhook_id=webhook_id).exists()
    assert [resolution for resolution, _ in sorted(rollups())] == ["day", "ever", "hour", "minute"]
    assert all(counters == OTHER for counters in rollups().values())
    assert (ever()["succeeded_at_once"], ever()["succeeded_later"], ever()["given_up"]) == (2, 5, 0)


def test_unfolded_tallies_are_removed_too(webhook_id, other_id):
    make_tally(NOW, **{webhook_id: ONE, other_id: OTHER})

    remove("default", [webhook_id])

    assert ever()["given_up"] == 0
    assert {row.webhook_id for row in Rollup.objects.all()} >= {other_id}


def test_a_webhook_without_rollups_changes_nothing(webhook_id, other_id):
    make_tally(NOW, **{other_id: OTHER})
    fold("default")
    before = rollups()

    remove("default", [webhook_id])

    assert rollups() == before
