"""The Celery app that the measured workers run."""

from __future__ import annotations

import os

from celery import Celery

from webhooks_app.beat import BEAT_SCHEDULE

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchmarks.settings")

app = Celery("benchmarks")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.beat_schedule = BEAT_SCHEDULE
app.autodiscover_tasks()
