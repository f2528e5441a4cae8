"""The maintenance thread of a worker process."""

from __future__ import annotations

import logging
import os
import threading

import pytest
from django.db import DatabaseError

from webhooks_app import __version__
from webhooks_app.maintenance import runner as keeper_module
from webhooks_app.maintenance.jobs import Job
from webhooks_app.maintenance.runner import MaintenanceRunner
from webhooks_app.models import MaintenanceJob, WorkerProcess

from ...support.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    monkeypatch.setattr(keeper_module, "LONGEST_PAUSE_SECONDS", 0.05)
    monkeypatch.setattr(keeper_module, "HEARTBEAT_SECONDS", 0.05)
    monkeypatch.setattr(keeper_module, "FIRST_BACKOFF_SECONDS", 0.05)


def a_job(ran: threading.Event) -> Job:
    def run(using, now, facts):
        ran.set()

    return Job(name="one", every_seconds=5, run=run)


def test_a_process_has_a_row_that_it_deletes_at_the_end(deliverer):
    with MaintenanceRunner(deliverer, jobs=[]):
        wait_until(WorkerProcess.objects.exists)
        process = WorkerProcess.objects.get()

    assert (process.pid, process.version, process.transport, process.in_flight) == (
        os.getpid(),
        __version__,
        "memory",
        3,
    )
    assert process.seen_at >= process.started_at
    assert abs(process.database_ahead_ms) < 60_000
    assert not WorkerProcess.objects.exists()


def test_the_row_of_a_process_is_renewed(deliverer):
    with MaintenanceRunner(deliverer, jobs=[]):
        wait_until(WorkerProcess.objects.exists)
        deliverer.in_flight = 7
        wait_until(lambda: WorkerProcess.objects.get().in_flight == 7)

        assert WorkerProcess.objects.count() == 1


def test_due_jobs_run(deliverer):
    ran = threading.Event()

    with MaintenanceRunner(deliverer, jobs=[a_job(ran)]):
        assert ran.wait(30)


def test_a_beat_is_recorded(deliverer):
    maintenance_runner = MaintenanceRunner(deliverer, jobs=[])
    with maintenance_runner:
        maintenance_runner.note_beat()
        wait_until(lambda: MaintenanceJob.objects.filter(name="beat", ended_at__isnull=False).exists())


def test_an_unavailable_database_is_logged_once(deliverer, monkeypatch, caplog):
    failures = iter([DatabaseError("gone")] * 3)
    run_due = keeper_module.run_due
    ran = threading.Event()

    def run_due_when_back(*args):
        if error := next(failures, None):
            raise error
        run_due(*args)

    monkeypatch.setattr(keeper_module, "run_due", run_due_when_back)
    with caplog.at_level(logging.WARNING, "webhooks_app.maintenance"), MaintenanceRunner(deliverer, jobs=[a_job(ran)]):
        assert ran.wait(30)

    assert [record.getMessage() for record in caplog.records] == ["Upkeep waits for the database: gone"]


def test_an_emptied_table_is_filled_again(deliverer):
    ran = threading.Event()
    with MaintenanceRunner(deliverer, jobs=[a_job(ran)]):
        assert ran.wait(30)
        ran.clear()
        MaintenanceJob.objects.all().delete()
        assert ran.wait(30)


def test_a_runner_starts_once_and_after_a_stop_only_when_reset(deliverer):
    ran = threading.Event()
    maintenance_runner = MaintenanceRunner(deliverer, jobs=[a_job(ran)])
    maintenance_runner.start()
    thread = maintenance_runner._thread
    maintenance_runner.start()
    assert maintenance_runner._thread is thread
    maintenance_runner.stop()
    maintenance_runner.join()

    maintenance_runner.start()
    assert not thread.is_alive()
    maintenance_runner.reset()
    MaintenanceJob.objects.all().delete()
    ran.clear()
    with maintenance_runner:
        assert ran.wait(30)
