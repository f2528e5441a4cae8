"""A project that sends its webhooks with django-webhook, set up as its documentation says."""

from .celery import app as celery_app

__all__ = ["celery_app"]
