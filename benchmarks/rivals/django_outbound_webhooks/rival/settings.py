"""Settings of a project with django-outbound-webhooks, with the defaults of its packages."""

from __future__ import annotations

import environ
import pymysql

pymysql.install_as_MySQLdb()

env = environ.Env()

SECRET_KEY = "benchmarks only"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django_domain_events",
    "django_outbound_webhooks",
    "rival",
]
DATABASES = {"default": {**env.db("BENCHMARK_DATABASE_URL"), "CONN_MAX_AGE": 60}}
DJANGO_OUTBOUND_WEBHOOKS = {"ALLOW_PRIVATE_ADDRESSES": True}
