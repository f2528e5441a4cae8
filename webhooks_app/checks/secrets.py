"""Checks of the secrets that are stored: run only where Django looks at a database, as by ``migrate``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, router

from ..encryption import decrypt
from ..exceptions import SecretUnreadableError
from ..models import SigningKey, Webhook
from ..plurals import counted

SAMPLE = 50
"""Keys looked at from either end: the oldest are the first to lose their key, the newest show the one in use."""

MAX_NAMED = 5


@checks.register(checks.Tags.database)
def check_stored_secrets(*, databases: Sequence[str] | None = None, **kwargs: Any) -> list[checks.CheckMessage]:
    using = router.db_for_write(Webhook)
    if using not in (databases or ()) or not _has_table(using):
        return []
    try:
        unreadable = [webhook_id for webhook_id, token in _sample(using).items() if not _is_readable(token)]
    except (ImproperlyConfigured, TypeError):
        unreadable = []  # The check of the setting says what is wrong with it.
    if not unreadable:
        return []
    secrets = f"the secrets of {counted(len(unreadable), 'webhook')}"
    named = ", ".join(unreadable[:MAX_NAMED]) + (" …" if len(unreadable) > MAX_NAMED else "")
    return [
        checks.Warning(
            f"No configured key opens {secrets}, {named}: nothing is sent there.",
            hint="Put the key that was in use back into WEBHOOKS_ENCRYPTION_KEYS, or rotate their secrets. "
            "`manage.py reencrypt_webhook_secrets --dry-run` looks at all webhooks.",
            id="webhooks_app.W009",
        )
    ]


def _has_table(using: str) -> bool:
    connection = connections[using]
    with connection.cursor() as cursor:
        return Webhook._meta.db_table in connection.introspection.table_names(cursor)


def _sample(using: str) -> dict[str, str]:
    keys = SigningKey.objects.using(using).current().filter(webhook__deleted_at=None)
    found = keys.values_list("webhook_id", "encrypted_key")
    return {**dict(found.order_by("pk")[:SAMPLE]), **dict(found.order_by("-pk")[:SAMPLE])}


def _is_readable(token: str) -> bool:
    try:
        decrypt(token)
    except SecretUnreadableError:
        return False
    return True
