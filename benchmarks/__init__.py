"""Measuring the app from outside, with real servers and workers started as a user starts them."""

from .celery import app as celery_app

__all__ = ["celery_app"]
