"""The health of a webhook, updated by folding results."""

from __future__ import annotations

from datetime import timedelta

import pytest

from webhooks_app.maintenance.health import move, update_states
from webhooks_app.maintenance.jobs import JOBS, run_due
from webhooks_app.maintenance.rollups.folding import TalliedWebhook
from webhooks_app.models import MaintenanceJob, WebhookHealth
from webhooks_app.operations.actors import PROJECT
from webhooks_app.operations.lifecycle import enable

from ...delivery.conftest import ManualClock
from ...support.rows import make_webhook
from ..rollups.conftest import NOW, make_tally

ANY = "wh_" + "7" * 32


def entry(minutes, webhook_id=ANY, *, given_up=0, **counters):
    return TalliedWebhook(webhook_id, NOW + timedelta(minutes=minutes), counters, given_up)


def at(minutes):
    return NOW + timedelta(minutes=minutes)


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([entry(0, succeeded_at_once=1)], (at(0), None, None, 0)),
        ([entry(0, given_up=1), entry(5, given_up=2)], (None, at(5), at(0), 3)),
        ([entry(0, given_up=1), entry(5, succeeded_later=1)], (at(5), at(0), None, 0)),
        ([entry(0, given_up=4), entry(5, succeeded_later=1, given_up=1)], (at(5), at(5), at(5), 1)),
        ([entry(0, failed_timeout=1)], (None, None, None, 0)),
        ([entry(0, succeeded_at_once=1), entry(0.5, succeeded_at_once=1)], (at(0), None, None, 0)),
        ([entry(0, succeeded_at_once=1), entry(1, succeeded_at_once=1)], (at(1), None, None, 0)),
    ],
    ids=["well", "failing", "recovered", "recovered-and-failing", "to-be-retried", "same-minute", "next-minute"],
)
def test_health_follows_the_tallies(entries, expected):
    health = WebhookHealth(webhook_id=ANY)

    for each in entries:
        move(health, each)

    found = (health.last_success_at, health.last_given_up_at, health.failing_since, health.given_up_count)
    assert found == expected


def test_tallies_from_before_the_clearing_belong_to_a_past_period():
    health = WebhookHealth(webhook_id=ANY, cleared_at=at(5))

    for minutes in (4, 5, 6):
        move(health, entry(minutes, given_up=1))

    past, now = health.failures()
    assert (past.began_at, past.ended_at, past.given_up) == (at(4), at(5), 2)
    assert (now.began_at, now.ended_at, now.given_up) == (at(6), None, 1)


@pytest.fixture
def webhooks(django_user_model):
    alice = django_user_model.objects.create_user("alice")
    return [make_webhook(alice) for _ in range(2)]


@pytest.mark.django_db
def test_each_existing_webhook_has_its_own_row(webhooks):
    failing, well = webhooks

    for minutes in (0, 1):
        entries = [entry(minutes, failing.pk, given_up=1), entry(minutes, well.pk, succeeded_at_once=1)]
        update_states("default", [*entries, entry(minutes, given_up=1)])

    rows = {row.webhook_id: (row.failing_since, row.given_up_count) for row in WebhookHealth.objects.all()}
    assert rows == {failing.pk: (at(0), 2), well.pk: (None, 0)}


@pytest.mark.django_db
def test_the_row_of_a_healthy_webhook_is_not_updated(webhooks, django_assert_num_queries):
    well = webhooks[0]
    update_states("default", [entry(0, well.pk, succeeded_at_once=1)])

    with django_assert_num_queries(1):
        update_states("default", [entry(0.5, well.pk, succeeded_at_once=9)])


@pytest.mark.django_db
def test_enabling_a_webhook_clears_its_health(webhooks):
    failing = webhooks[0]
    update_states("default", [entry(0, failing.pk, given_up=3)])
    failing.disable("Failing.")

    enable(failing, actor=PROJECT)

    health = WebhookHealth.objects.get()
    assert (health.failing_since, health.given_up_count) == (None, 0)
    assert health.cleared_at is not None


@pytest.mark.django_db
def test_tallies_unfolded_at_enabling_no_longer_count(webhooks):
    WebhookHealth.objects.clear(webhooks[0])
    cleared_at = WebhookHealth.objects.get().cleared_at

    late = TalliedWebhook(webhooks[0].pk, cleared_at - timedelta(seconds=1), {"given_up": 1}, 1)
    update_states("default", [late])

    assert WebhookHealth.objects.get().failing_since is None


@pytest.mark.django_db
def test_folding_updates_the_health(webhooks):
    failing = webhooks[0]
    clock = ManualClock()
    make_tally(clock(), **{failing.pk: {"given_up": 2, "given_up_since_success": 2}})
    (job,) = [job for job in JOBS if job.name == "fold"]
    MaintenanceJob.objects.ensure(["fold"])

    run_due("default", clock, [job])

    assert MaintenanceJob.objects.get(name="fold").error == ""
    assert (failing.health.failing_since, failing.health.given_up_count) == (clock(), 2)
