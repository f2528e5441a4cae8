"""A service without the admin, sessions and templates: only the API."""

from common_settings import *

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "rest_framework",
    "webhooks_app",
    "shop",
]
MIDDLEWARE = ["django.middleware.common.CommonMiddleware"]
TEMPLATES = []
