"""Maintenance jobs: each runs when it is due, in one process at a time; a failing job does not stop the others."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta

import pytest
from django.db import OperationalError, connections

from webhooks_app.maintenance.jobs import JOBS, Job, run_due
from webhooks_app.models import MaintenanceJob, QueueEntry, QueueLane, Rollup, Tally, Webhook, WorkerProcess

from ...delivery.conftest import ManualClock
from ...support.rows import emit_one, make_webhook
from ..rollups.conftest import make_tally


@pytest.fixture
def clock():
    return ManualClock()


def counting(name, done, again_seconds=None):
    def run(using, now, facts):
        done.append(name)
        facts["done"] = facts.get("done", 0) + 1
        return again_seconds

    return Job(name=name, every_seconds=5, run=run)


@pytest.mark.django_db
def test_a_job_runs_when_it_is_due_and_not_before(job_rows, clock):
    done = []
    jobs = [counting("one", done)]

    for seconds in (0, 4, 1, 5):
        clock.advance(seconds)
        next_due_at = run_due("default", clock, jobs)

    assert len(done) == 3
    state = MaintenanceJob.objects.get(name="one")
    assert (state.facts, state.error, state.ended_at) == ({"done": 3}, "", clock())
    assert next_due_at == clock() + timedelta(seconds=5)


@pytest.mark.django_db
def test_a_job_can_shorten_the_time_to_its_next_run(job_rows, clock):
    done = []
    jobs = [counting("one", done, again_seconds=0.5)]

    assert run_due("default", clock, jobs) == clock() + timedelta(seconds=0.5)


def fail(using, now, facts):
    raise ValueError("Nothing to be found.")


def find_no_lock(using, now, facts):
    raise OperationalError("No lock.")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("run", "error"),
    [(fail, "ValueError: Nothing to be found."), (find_no_lock, "OperationalError: No lock.")],
    ids=["fails", "no-lock"],
)
def test_a_failing_job_stores_its_error_and_the_next_job_runs(job_rows, clock, caplog, run, error):
    done = []

    run_due("default", clock, [Job(name="one", every_seconds=5, run=run), counting("other", done)])

    assert MaintenanceJob.objects.get(name="one").error == error
    assert done == ["other"]


@pytest.mark.django_db
def test_the_error_is_removed_by_the_next_successful_run(job_rows, clock, caplog):
    run_due("default", clock, [Job(name="one", every_seconds=5, run=fail)])
    clock.advance(5)

    run_due("default", clock, [counting("one", [])])

    assert MaintenanceJob.objects.get(name="one").error == ""


@pytest.mark.django_db
def test_a_job_of_a_lost_process_is_taken_over(job_rows, clock):
    state = MaintenanceJob.objects.get(name="one")
    assert state.take(clock(), clock() + timedelta(seconds=60))
    done = []

    run_due("default", clock, [counting("one", done)])
    assert done == []
    clock.advance(60)
    run_due("default", clock, [counting("one", done)])

    assert done == ["one"]


@pytest.mark.django_db(transaction=True)
def test_only_one_of_many_processes_runs_a_job(job_rows):
    clock, done = ManualClock(), []
    ready = threading.Barrier(4)

    def run():
        try:
            ready.wait()
            run_due("default", clock, [counting("one", done)])
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert done == ["one"]


@pytest.mark.django_db
def test_a_job_that_another_process_has_run_since_is_not_run_again(job_rows, clock):
    done = []

    def while_another_process_works(using, now, facts):
        run_due("default", clock, [counting("other", done)])

    run_due(
        "default", clock, [Job(name="one", every_seconds=5, run=while_another_process_works), counting("other", done)]
    )

    assert done == ["other"]


@pytest.mark.django_db
def test_a_turn_costs_one_statement_and_two_more_for_a_due_job(job_rows, clock, django_assert_num_queries):
    jobs = [counting("one", [])]
    with django_assert_num_queries(3):
        run_due("default", clock, jobs)
    with django_assert_num_queries(1):
        run_due("default", clock, jobs)


@pytest.mark.django_db
def test_existing_rows_are_not_changed(job_rows, clock):
    MaintenanceJob.objects.update(error="Still to be seen.")

    MaintenanceJob.objects.ensure(["one", "new"])

    assert list(MaintenanceJob.objects.values_list("name", "error")) == [
        ("new", ""),
        ("one", "Still to be seen."),
        ("other", "Still to be seen."),
    ]


def run_job(name, clock):
    """Run one of the real jobs now. Return the seconds until its next run."""
    (job,) = [job for job in JOBS if job.name == name]
    MaintenanceJob.objects.ensure([name])
    MaintenanceJob.objects.filter(name=name).update(next_run_at=clock())
    next_due_at = run_due("default", clock, [job])
    assert MaintenanceJob.objects.get(name=name).error == ""
    return (next_due_at - clock()).total_seconds()


@pytest.mark.django_db
def test_many_tallies_are_folded_at_shorter_intervals(clock):
    webhook_id = "wh_" + "7" * 32
    for _ in range(120):
        make_tally(clock(), **{webhook_id: {"given_up": 1}})

    pauses = [run_job("fold", clock)]
    while Tally.objects.exists():
        pauses.append(run_job("fold", clock))

    assert pauses == [0.1] * (len(pauses) - 1) + [5]
    assert len(pauses) > 1
    assert Rollup.objects.get(webhook_id=webhook_id, resolution="day").given_up == 120


@pytest.mark.django_db
def test_gauges_count_pending_deliveries(django_user_model, clock):
    alice = django_user_model.objects.create_user("alice")
    active, paused, pending = make_webhook(alice), make_webhook(alice), make_webhook(alice)
    emit_one(alice)
    emit_one(alice)
    paused.pause()
    pending.await_verification()
    first = active.deliveries.first()
    QueueEntry.objects.filter(pk=first.pk).update(claimed_at=clock())

    assert run_job("gauges", clock) >= 15

    facts = MaintenanceJob.objects.get(name="gauges").facts
    assert {name: facts[name] for name in ("waiting", "due", "held", "in_flight")} == {
        "waiting": 5,
        "due": 1,
        "held": 4,
        "in_flight": 1,
    }
    assert facts["by_hold"] == {"": 1, "in_flight": 1, "paused": 2, "unverified": 2}
    assert facts["by_minute"] == {}


@pytest.mark.django_db
def test_gauges_count_what_becomes_due_in_the_next_hour_and_what_is_held(django_user_model, clock):
    alice = django_user_model.objects.create_user("alice")
    retried, limited, ordered = make_webhook(alice), make_webhook(alice), make_webhook(alice)
    for _ in range(2):
        emit_one(alice)
    now, entries = clock(), QueueEntry.objects
    later = now.replace(second=0, microsecond=0) + timedelta(minutes=7)
    entries.filter(webhook=retried).update(due_at=later)
    entries.filter(pk=retried.deliveries.first().pk).update(due_at=now + timedelta(hours=2))
    Webhook.objects.filter(pk=limited.pk).update(rate_limit=1)
    QueueLane.objects.create(webhook=limited, next_slot_at=now + timedelta(minutes=1))
    entries.filter(webhook=ordered).update(due_at=None)

    run_job("gauges", clock)

    facts = MaintenanceJob.objects.get(name="gauges").facts
    assert facts["by_hold"] == {"not_due": 2, "rate_limited": 2, "ordered": 2}
    assert list(facts["by_minute"].values()) == [1]
    assert datetime.fromisoformat(*facts["by_minute"]) == later
    assert (facts["waiting"], facts["due"], facts["held"]) == (6, 2, 0)


@pytest.mark.django_db
def test_expired_data_is_deleted(clock):
    now = clock()
    for name, age in (("old", timedelta(days=2)), ("new", timedelta(hours=1))):
        WorkerProcess.objects.create(id=name, pid=1, started_at=now - age, seen_at=now - age)
    make_tally(now - timedelta(days=3), **{"wh_" + "7" * 32: {"given_up": 1}})
    run_job("fold", clock)

    run_job("forget", clock)

    assert [process.pk for process in WorkerProcess.objects.all()] == ["new"]
    assert not Rollup.objects.filter(resolution="minute").exists()
