"""A presentation service in small: what it does goes out as webhooks."""

from .celery import app as celery_app

__all__ = ["celery_app"]
