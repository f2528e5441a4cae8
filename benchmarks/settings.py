"""Settings of the benchmarks. The database, the broker and the transport come from the environment."""

from __future__ import annotations

from pathlib import Path

import environ  # type: ignore[import-untyped]
import pymysql

pymysql.install_as_MySQLdb()

env = environ.Env()

SECRET_KEY = "benchmarks only"
USE_TZ = True
DEBUG = False
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "webhooks_app", "demo_data"]
DATABASES = {"default": {**env.db("BENCHMARK_DATABASE_URL", default="sqlite:///:memory:"), "CONN_MAX_AGE": 60}}
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    DATABASES["default"]["OPTIONS"] = {
        "transaction_mode": "IMMEDIATE",
        "timeout": 60,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
    }

CELERY_BROKER_URL = env.str("BENCHMARK_BROKER_URL", default="memory://")
if CELERY_BROKER_URL.startswith("filesystem:"):
    from tests.support import folder_broker

    CELERY_BROKER_TRANSPORT = "tests.support.folder_broker:Transport"
    CELERY_BROKER_TRANSPORT_OPTIONS = folder_broker.transport_options(Path(env.str("BENCHMARK_BROKER_FOLDER")))
    CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
CELERY_TASK_IGNORE_RESULT = True
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True

WEBHOOKS_TRANSPORT = env.str("BENCHMARK_TRANSPORT", default="native")
WEBHOOKS_BUILTIN_EVENT_TYPES = True
WEBHOOKS_ALLOW_HTTP = True
WEBHOOKS_ALLOWED_NETWORKS = ["127.0.0.0/8"]
WEBHOOKS_RETRY_NOTICES = False
globals().update(env.json("BENCHMARK_SETTINGS", default={}))

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"console": {"class": "logging.StreamHandler"}},
    "loggers": {"webhooks_app": {"handlers": ["console"], "level": "INFO", "propagate": False}},
}
