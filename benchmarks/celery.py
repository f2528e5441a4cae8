"""The Celery app of the measured workers, through which the measuring process wakes them."""

from __future__ import annotations

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchmarks.settings")

# Importing this package must not replace the current app. Workers, and the measuring process, do so themselves.
app = Celery("benchmarks", include=["benchmarks.rivals.one_task_each"], set_as_current=False)
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
