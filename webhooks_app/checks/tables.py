"""Checks of the tables: their owner model, and the stored secrets.

Django runs them only with a database selected, as ``migrate`` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, router
from django.utils.translation import gettext, ngettext

from ..encryption import decrypt
from ..exceptions import SecretUnreadableError
from ..models import SigningKey, Webhook
from ..owners import owner_model
from .registration import register

SAMPLED_ROWS = 50
"""Number of oldest and of newest secrets to examine. The oldest are the first to lose their encryption key."""

MAX_NAMED_TABLES = 5


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
            gettext(
                "WEBHOOKS_OWNER_MODEL is %(model)s (table %(expected)s), but the tables of this app refer to the table "
                "%(found)s."
            )
            % {"model": owner_model()._meta.label, "expected": expected, "found": found},
            hint=gettext(
                "The owner model cannot change once the tables exist, because their rows refer to owners by key. Set "
                "it back. To start again without any webhook, remove the tables with `manage.py migrate webhooks_app "
                "zero --skip-checks`, then run `manage.py migrate`."
            ),
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


@register(checks.Tags.database)
def check_stored_secrets(*, databases: Sequence[str] | None = None, **kwargs: Any) -> list[checks.CheckMessage]:
    using = router.db_for_write(Webhook)
    if using not in (databases or ()) or not _has_table(using):
        return []
    try:
        unreadable = sorted({webhook_id for webhook_id, token in _sample(using) if not _is_readable(token)})
    except (ImproperlyConfigured, TypeError):
        unreadable = []  # Another check reports the invalid setting.
    if not unreadable:
        return []
    problem = ngettext(
        "No configured key decrypts the secrets of %(number)s webhook, %(names)s: nothing can be sent to it.",
        "No configured key decrypts the secrets of %(number)s webhooks, %(names)s: nothing can be sent to them.",
        len(unreadable),
    )
    named = ", ".join(unreadable[:MAX_NAMED_TABLES]) + (" …" if len(unreadable) > MAX_NAMED_TABLES else "")
    return [
        checks.Warning(
            problem % {"number": len(unreadable), "names": named},
            hint=gettext(
                "Add the previous key to WEBHOOKS_ENCRYPTION_KEYS, or rotate these secrets. "
                "`manage.py reencrypt_webhook_secrets --dry-run` examines all webhooks."
            ),
            id="webhooks_app.W009",
        )
    ]


def _has_table(using: str) -> bool:
    connection = connections[using]
    with connection.cursor() as cursor:
        return Webhook._meta.db_table in connection.introspection.table_names(cursor)


def _sample(using: str) -> set[tuple[str, str]]:
    """Return webhooks with an encrypted key of theirs."""
    keys = SigningKey.objects.using(using).necessary().filter(webhook__deleted_at=None)
    found = keys.values_list("webhook_id", "encrypted_key")
    return {*found.order_by("pk")[:SAMPLED_ROWS], *found.order_by("-pk")[:SAMPLED_ROWS]}


def _is_readable(token: str) -> bool:
    try:
        decrypt(token)
    except SecretUnreadableError:
        return False
    return True
