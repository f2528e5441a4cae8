"""Settings of the test project: those of a typical host, with receivers on the loopback interface."""

import os
from importlib.util import find_spec
from pathlib import Path

import django
import environ
import pymysql

from webhooks_app.beat import BEAT_SCHEDULE

from .support.folder_broker import transport_options

SECRET_KEY = "tests only"
DEBUG = False
ALLOWED_HOSTS = ["testserver", "localhost", "127.0.0.1", "[::1]"]
USE_TZ = True
TIME_ZONE = "UTC"
ROOT_URLCONF = "tests.urls"
STATIC_URL = "static/"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    # django-celery-beat is optional, and does not support the newest Django immediately after its release.
    *(["django_celery_beat"] if find_spec("django_celery_beat") else []),
    "webhooks_app",
    "demo_data",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "tests.browser.policy.strict_policy",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

# `pytest --database=…` sets the variable. SQLite is a file, so that threads and subprocesses see the same rows.
_database = environ.Env().db_url("TEST_DATABASE_URL", default="sqlite://:memory:")
if _database["ENGINE"] == "django.db.backends.sqlite3":
    _database["TEST"] = {"NAME": _database["NAME"]}
    _database["OPTIONS"] = {
        "timeout": 20,
        "transaction_mode": "IMMEDIATE",
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF",
    }
elif _database["ENGINE"] == "django.db.backends.mysql":
    # PyMySQL stands in for mysqlclient, which needs a compiler to install.
    pymysql.install_as_MySQLdb()
    _database["OPTIONS"] = {"charset": "utf8mb4"}
DATABASES = {"default": _database}

CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
if django.VERSION >= (6, 1):
    MAILERS = {"default": {"BACKEND": "django.core.mail.backends.locmem.EmailBackend"}}
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

CELERY_BROKER_URL = os.environ.get("CELERY_BROKER_URL", "memory://")
CELERY_TASK_IGNORE_RESULT = True
CELERY_BEAT_SCHEDULE = BEAT_SCHEDULE
if CELERY_BROKER_URL.startswith("filesystem:"):
    CELERY_BROKER_TRANSPORT = "tests.support.folder_broker:Transport"
    CELERY_BROKER_TRANSPORT_OPTIONS = transport_options(Path(os.environ["TEST_BROKER_DIRECTORY"]))
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True

WEBHOOKS_BUILTIN_EVENT_TYPES = True
WEBHOOKS_ALLOW_HTTP = True
WEBHOOKS_ALLOWED_NETWORKS = ["127.0.0.0/8", "::1/128"]
