"""The admin in the clothes of django-jazzmin."""

from common_settings import *

INSTALLED_APPS = ["jazzmin", *INSTALLED_APPS]
