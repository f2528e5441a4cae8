"""The test project's settings, with what a fault needs otherwise taken from the environment."""

import json
import os
from pathlib import Path

from django.db.backends.signals import connection_created

from tests.settings import *  # noqa: F403

for _name, _value in json.loads(os.environ.get("TEST_SETTINGS", "{}")).items():
    globals()[_name] = _value

DISK_FULL = Path(os.environ["TEST_DISK_FULL"])


def _limit_pages(execute, sql, params, many, context):
    """Let SQLite's file grow or not, from one statement to the next."""
    pages = 1 if DISK_FULL.exists() else 2**30  # Fewer than there are means as many as there are.
    context["connection"].connection.execute(f"PRAGMA max_page_count = {pages}")
    return execute(sql, params, many, context)


def _watch_disk(connection, **kwargs):
    if connection.vendor == "sqlite":
        connection.execute_wrappers.append(_limit_pages)


connection_created.connect(_watch_disk)
