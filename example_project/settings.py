"""Settings of the example project: development defaults, overridable by environment variables."""

import os
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import environ  # type: ignore[import-untyped]

from webhooks_app.beat import BEAT_SCHEDULE

from . import broker
from .environment import webhooks_settings

env = environ.Env()

BASE_DIR = Path(__file__).resolve().parent.parent
VAR_DIR = Path(env.str("VAR_DIR", default=str(BASE_DIR / "var")))
"""Default folder of the database, the broker's messages and the files."""
VAR_DIR.mkdir(mode=0o700, parents=True, exist_ok=True)

DEBUG = env.bool("DEBUG", default=True)
SECRET_KEY = env.str("SECRET_KEY", default="for development only" if DEBUG else environ.Env.NOTSET)
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])
BASE_URL = env.str("BASE_URL", default=f"http://127.0.0.1:{env.int('PORT', default=8000)}")
"""URL of the service without a trailing slash, the prefix of download URLs."""

RECEIVER_PORT = env.int("RECEIVER_PORT", default=0)
RECEIVER_URL = f"http://127.0.0.1:{RECEIVER_PORT}/" if RECEIVER_PORT else ""
"""URL of the demonstration's receiver, or "" if it does not run. ``make run`` starts it."""

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    *(["drf_spectacular", "drf_spectacular_sidecar"] if find_spec("drf_spectacular_sidecar") else []),
    *(["django_celery_beat"] if find_spec("django_celery_beat") else []),
    "example_project",  # before webhooks_app, because its templates restyle the customers' pages
    "webhooks_app",
    "demo_data",
    "example_project.accounts",
    "example_project.files",
    "example_project.presentations",
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
            "libraries": {"receiver": "example_project.receiver"},
        },
    },
]

ROOT_URLCONF = "example_project.urls"
WSGI_APPLICATION = "example_project.wsgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"
STATIC_URL = "static/"
STATIC_ROOT = VAR_DIR / "static"
LOGIN_REDIRECT_URL = "/webhooks/"
LOGOUT_REDIRECT_URL = "/"
MEDIA_ROOT = VAR_DIR / "media"
FILE_UPLOAD_PERMISSIONS = 0o600

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
]

DATABASES = {"default": env.db_url("DATABASE_URL", default=f"sqlite:///{quote(str(VAR_DIR / 'db.sqlite3'))}")}
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    # Web, worker and beat write concurrently: WAL does not block readers, and writers wait for the lock.
    DATABASES["default"]["OPTIONS"] = {
        "timeout": 20,
        "transaction_mode": "IMMEDIATE",
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL",
    }

# Limits of requests count addresses. A proxy of your own adds one to X-Forwarded-For; clients can add any others.
REST_FRAMEWORK = {"NUM_PROXIES": env.int("NUM_PROXIES", default=0)}

CACHES = {"default": env.cache_url("CACHE_URL", default="locmemcache://")}

CELERY_BROKER_URL = env.str("CELERY_BROKER_URL", default="filesystem://localhost")
if CELERY_BROKER_URL.startswith("filesystem:"):
    CELERY_BROKER_TRANSPORT = "example_project.broker:Transport"
    CELERY_BROKER_TRANSPORT_OPTIONS = broker.transport_options(VAR_DIR / "broker")
    CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
elif CELERY_BROKER_URL.startswith(("redis:", "rediss:")):
    # Fail within two seconds if the broker is unavailable.
    CELERY_BROKER_TRANSPORT_OPTIONS = {
        "socket_connect_timeout": 1,
        "socket_timeout": 2,
        "max_retries": 1,
        "interval_start": 0,
    }
CELERY_BROKER_CONNECTION_TIMEOUT = 1
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TASK_IGNORE_RESULT = True
CELERY_BEAT_SCHEDULE_FILENAME = str(VAR_DIR / "beat-schedule")
CELERY_BEAT_SCHEDULE = {
    **BEAT_SCHEDULE,
    "resume-presentations": {"task": "example_project.resume_presentations", "schedule": 30},
    "resume-files": {"task": "example_project.resume_files", "schedule": 30},
}
if find_spec("django_celery_beat"):
    CELERY_BEAT_SCHEDULER = "django_celery_beat.schedulers:DatabaseScheduler"

# The event types of this presentation service.
WEBHOOKS_BUILTIN_EVENT_TYPES = True
# For receivers on this machine. Set the variables to empty or false to forbid it.
WEBHOOKS_ALLOW_HTTP = True
WEBHOOKS_ALLOWED_NETWORKS = ["127.0.0.0/8", "::1/128"]
globals().update(webhooks_settings(os.environ))

# Mails about failing webhooks go to the console by default. Example of a server: smtp://name:password@host:587.
globals().update(env.email_url("EMAIL_URL", default="consolemail://"))
DEFAULT_FROM_EMAIL = env.str("DEFAULT_FROM_EMAIL", default="webhooks@localhost")

MAX_UPLOAD_BYTES = 20 * 1024 * 1024

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)-7s %(name)s: %(message)s", "datefmt": "%H:%M:%S"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": "WARNING"},
    "loggers": {
        "webhooks_app": {"level": env.str("LOG_LEVEL", default="INFO")},
        "example_project": {"level": env.str("LOG_LEVEL", default="INFO")},
        "celery.apps.worker": {"level": "INFO"},
        # Replaces Django's handlers, which would print the same lines again.
        "django": {"handlers": ["console"], "level": "INFO", "propagate": False},
        "django.request": {"level": "ERROR"},
        "django.server": {"handlers": ["console"], "level": "INFO", "propagate": False},
    },
}
