"""Example project: a small presentation service that sends webhooks."""

from .celery import app as celery_app

__all__ = ["celery_app"]
