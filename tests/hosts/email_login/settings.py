"""Accounts that log in with an e-mail address and have no name."""

from common_settings import *

INSTALLED_APPS += ["people"]
AUTH_USER_MODEL = "people.Person"
