"""The Celery app that the measured workers run, and that the measuring process wakes them through."""

from __future__ import annotations

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchmarks.settings")

# Importing this package changes nothing for others: a worker makes its app the current one, as measuring does.
app = Celery("benchmarks", include=["benchmarks.rivals.one_task_each"], set_as_current=False)
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
