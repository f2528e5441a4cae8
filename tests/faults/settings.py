"""The settings of the test project, with changes for faults from the environment."""

import json
import os
from pathlib import Path

from django.db.backends.signals import connection_created

from tests.settings import *  # noqa: F403

# The processes of a fault show no page, and the console is a quarter of what they would import.
_console = INSTALLED_APPS.index("django.contrib.admin")  # noqa: F405
INSTALLED_APPS[_console] = "django.contrib.admin.apps.SimpleAdminConfig"  # noqa: F405

for _name, _value in json.loads(os.environ.get("TEST_SETTINGS", "{}")).items():
    globals()[_name] = _value

DISK_FULL = Path(os.environ["TEST_DISK_FULL"])


def _limit_pages(execute, sql, params, many, context):
    """Prevent or allow the growth of SQLite's file, from one statement to the next."""
    pages = 1 if DISK_FULL.exists() else 2**30  # A number below the current size means the current size.
    context["connection"].connection.execute(f"PRAGMA max_page_count = {pages}")
    return execute(sql, params, many, context)


def _watch_disk(connection, **kwargs):
    if connection.vendor == "sqlite":
        connection.execute_wrappers.append(_limit_pages)


connection_created.connect(_watch_disk)
