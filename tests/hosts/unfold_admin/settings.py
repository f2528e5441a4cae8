"""The admin with the theme django-unfold."""

from common_settings import *

INSTALLED_APPS = [
    "unfold",
    "unfold.contrib.filters",
    "unfold.contrib.forms",
    *INSTALLED_APPS,
    "look",
    "demo_data",
]
