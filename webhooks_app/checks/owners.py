"""Check that the tables refer to the configured owner model. Django runs it only with a database selected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core import checks
from django.db import connections, router

from ..models import Webhook
from ..owners import owner_model
from .registration import register


@register(checks.Tags.database)
def check_owner_tables(*, databases: Sequence[str] | None = None, **kwargs: Any) -> list[checks.CheckMessage]:
    using = router.db_for_write(Webhook)
    if using not in (databases or ()):
        return []
    expected, found = owner_model()._meta.db_table, _referenced_table(using)
    if found in ("", expected):
        return []
    return [
        checks.Error(
            f"WEBHOOKS_OWNER_MODEL is {owner_model()._meta.label} (table {expected}), but the tables of this app "
            f"refer to the table {found}.",
            hint="The owner model cannot change once the tables exist, because their rows refer to owners by key. Set "
            "it back. To start again without any webhook, remove the tables with `manage.py migrate webhooks_app zero "
            "--skip-checks`, then run `manage.py migrate`.",
            id="webhooks_app.E032",
        )
    ]


def _referenced_table(using: str) -> str:
    """Return the table to which the owner column of webhooks refers, or "" if there are no tables yet."""
    connection, table = connections[using], Webhook._meta.db_table
    with connection.cursor() as cursor:
        if table not in connection.introspection.table_names(cursor):
            return ""
        relations = connection.introspection.get_relations(cursor, table)
    return str(relations["owner_id"][1]) if "owner_id" in relations else ""
