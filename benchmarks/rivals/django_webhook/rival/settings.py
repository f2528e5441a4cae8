"""Settings of a project with django-webhook. Connections are kept, as in the project of the measured app."""

from __future__ import annotations

import environ
import pymysql

pymysql.install_as_MySQLdb()

env = environ.Env()

SECRET_KEY = "benchmarks only"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "django_webhook", "rival"]
MIGRATION_MODULES = {"rival": None}
DATABASES = {"default": {**env.db("BENCHMARK_DATABASE_URL"), "CONN_MAX_AGE": 60}}
CELERY_BROKER_URL = env.str("BENCHMARK_BROKER_URL")
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TASK_IGNORE_RESULT = True
DJANGO_WEBHOOK = {"MODELS": ["rival.FirstOrder", "rival.SecondOrder"]}
