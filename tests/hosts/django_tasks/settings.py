"""Delivery by workers of Django's task framework."""

from common_settings import *

INSTALLED_APPS += ["django_tasks_db"]
TASKS = {"default": {"BACKEND": "django_tasks_db.DatabaseBackend"}}
WEBHOOKS_WAKE = "django_tasks"
