"""Accounts that log in with an email address and have no user name."""

from common_settings import *

INSTALLED_APPS += ["people"]
AUTH_USER_MODEL = "people.Person"
