"""What the forked processes of the tests have in common: libraries, and nothing that depends on settings."""

from __future__ import annotations

import gc
from importlib import import_module

from django.conf import settings

LIBRARIES = (
    *("celery.apps.beat", "celery.apps.worker", "celery.bin.beat", "celery.bin.celery", "celery.bin.worker"),
    *("celery.concurrency.prefork", "celery.concurrency.solo", "celery.events.state", "celery.worker.consumer"),
    *("kombu.transport.filesystem", "kombu.transport.pyamqp", "kombu.transport.redis"),
    *("django.core.management.commands.migrate", "django.db.migrations.autodetector", "django.forms"),
    *("django.db.backends.postgresql.base", "django.db.backends.sqlite3.base", "django.middleware.locale"),
    *("django.contrib.admindocs.utils", "django.contrib.postgres.fields", "django.test.client", "django.views.debug"),
    *("cron_descriptor", "crontab", "cryptography.fernet", "docutils.parsers.rst.states", "inflection", "jsonschema"),
    *("prometheus_client", "psycopg", "pydantic.main", "pydantic.root_model", "pydantic.type_adapter", "pymysql"),
    *("pygments.formatters.html", "requests", "uritemplate"),
)

for library in LIBRARIES:
    import_module(library)
assert not settings.configured, "Each process reads its own settings."
gc.freeze()
