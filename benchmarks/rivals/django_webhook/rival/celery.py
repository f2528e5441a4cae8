"""The Celery app of the workers."""

from __future__ import annotations

from celery import Celery

app = Celery("rival")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
