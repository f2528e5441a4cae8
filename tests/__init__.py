"""The project's own tests; ``python -m tests`` runs them on every database that this machine has."""

from .support.celery import app as celery_app

__all__ = ["celery_app"]
