"""Benchmarks: measure the app from outside, with real servers and with workers started like those of a user."""

from .celery import app as celery_app

__all__ = ["celery_app"]
