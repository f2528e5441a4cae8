"""The admin with the theme django-jazzmin."""

from common_settings import *

INSTALLED_APPS = ["jazzmin", *INSTALLED_APPS, "demo_data"]
