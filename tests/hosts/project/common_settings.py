"""Settings common to all hosts: those of ``startproject``, and the README's additions for development."""

import os
from pathlib import Path
from urllib.parse import urlsplit

STATE = Path(os.environ["HOST_STATE"])
"""The directory of this run."""

SECRET_KEY = "hosts only"
DEBUG = True
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular_sidecar",
    "webhooks_app",
    "shop",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [],
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

ROOT_URLCONF = "urls"
STATIC_URL = "static/"
USE_TZ = True
TIME_ZONE = "UTC"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


def sqlite(name="db.sqlite3", **more):
    """Return a database with the options recommended by the check W004."""
    options = {"transaction_mode": "IMMEDIATE", "timeout": 20}
    return {"ENGINE": "django.db.backends.sqlite3", "NAME": STATE / name, "OPTIONS": options, **more}


def postgresql(**more):
    """Return the database of this run, which the test has created."""
    url = urlsplit(os.environ["HOST_DATABASE_URL"])
    address = {"HOST": url.hostname, "PORT": url.port, "USER": url.username, "NAME": url.path[1:]}
    return {"ENGINE": "django.db.backends.postgresql", **address, **more}


DATABASES = {"default": sqlite()}

WEBHOOKS_ALLOW_HTTP = True
WEBHOOKS_ALLOWED_NETWORKS = ["127.0.0.0/8"]
