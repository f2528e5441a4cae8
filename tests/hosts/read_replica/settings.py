"""Reads from a frozen copy of the primary: read-only, without the owners of the tests, and never migrated.

On PostgreSQL, owners are groups, so that both policies for owners are tested.
"""

import os

from common_settings import *

if os.environ["HOST_DATABASE_URL"]:
    PRIMARY = postgresql()
    READ_ONLY = {"options": "-c default_transaction_read_only=on"}
    COPY = {**PRIMARY, "NAME": f"{PRIMARY['NAME']}_replica", "OPTIONS": READ_ONLY}
    WEBHOOKS_OWNER_MODEL = "auth.Group"
    WEBHOOKS_OWNERS = "accounts.Groups"
else:
    PRIMARY = sqlite("primary.sqlite3")
    PRIMARY["OPTIONS"]["init_command"] = "PRAGMA synchronous=OFF"
    COPY = {**PRIMARY, "NAME": f"file:{STATE}/replica.sqlite3?mode=ro", "OPTIONS": {"uri": True}}

DATABASES = {"default": {}, "primary": PRIMARY, "replica": COPY}
DATABASE_ROUTERS = ["replicas.PrimaryReplicaRouter"]

# Django reads sessions from the replica.
SESSION_ENGINE = "django.contrib.sessions.backends.signed_cookies"

INSTALLED_APPS += ["drf_spectacular", "demo_data"]
WEBHOOKS_API_RATE = WEBHOOKS_TEST_RATE = WEBHOOKS_VERIFICATION_RATE = ""
