"""The beat schedule, from a settings file and from the database."""

from __future__ import annotations

import pytest

from tests.support.celery import app
from webhooks_app import tasks
from webhooks_app.beat import BEAT_SCHEDULE


def test_every_entry_refers_to_a_task_of_the_app():
    assert {entry["task"] for entry in BEAT_SCHEDULE.values()} == {tasks.deliver_due.name, tasks.prune.name}


@pytest.mark.django_db(transaction=True)
def test_the_database_scheduler_stores_the_schedule():
    models = pytest.importorskip("django_celery_beat.models", reason="django-celery-beat is not installed")
    from django_celery_beat.schedulers import DatabaseScheduler

    scheduler = DatabaseScheduler(app=app)
    scheduler._finalize.cancel()  # Otherwise it would write again after the tests.

    sweep = models.PeriodicTask.objects.get(name="webhooks-deliver-due")
    assert (sweep.task, sweep.interval.every, sweep.interval.period) == ("webhooks_app.deliver_due", 5, "seconds")
    assert sweep.enabled
