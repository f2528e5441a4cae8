"""The beat schedule, where a settings file takes it and where the database keeps it."""

from __future__ import annotations

import pytest

from tests.support.celery import app
from webhooks_app import tasks
from webhooks_app.beat import BEAT_SCHEDULE


def test_every_entry_names_a_task_of_ours():
    assert {entry["task"] for entry in BEAT_SCHEDULE.values()} == {tasks.deliver_due.name, tasks.prune.name}


@pytest.mark.django_db(transaction=True)
def test_the_database_scheduler_takes_the_schedule_into_the_database():
    models = pytest.importorskip("django_celery_beat.models", reason="django-celery-beat is not installed")
    from django_celery_beat.schedulers import DatabaseScheduler

    scheduler = DatabaseScheduler(app=app)
    scheduler._finalize.cancel()  # Or it would write once more when the tests are over.

    sweep = models.PeriodicTask.objects.get(name="webhooks-deliver-due")
    assert (sweep.task, sweep.interval.every, sweep.interval.period) == ("webhooks_app.deliver_due", 5, "seconds")
    assert sweep.enabled
