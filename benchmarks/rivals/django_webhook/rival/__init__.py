"""A project with django-webhook, configured according to its documentation."""

from .celery import app as celery_app

__all__ = ["celery_app"]
