"""Check of the stored secrets. Django runs it only with a database selected, as ``migrate`` does."""

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
from .registration import register

SAMPLE = 50
"""Number of oldest and of newest secrets to examine. The oldest are the first to lose their encryption key."""

MAX_NAMED = 5


@register(checks.Tags.database)
def check_stored_secrets(*, databases: Sequence[str] | None = None, **kwargs: Any) -> list[checks.CheckMessage]:
    using = router.db_for_write(Webhook)
    if using not in (databases or ()) or not _has_table(using):
        return []
    try:
        unreadable = [webhook_id for webhook_id, token in _sample(using).items() if not _is_readable(token)]
    except (ImproperlyConfigured, TypeError):
        unreadable = []  # Another check reports the invalid setting.
    if not unreadable:
        return []
    secrets = f"the secrets of {counted(len(unreadable), 'webhook')}"
    named = ", ".join(unreadable[:MAX_NAMED]) + (" …" if len(unreadable) > MAX_NAMED else "")
    return [
        checks.Warning(
            f"No configured key decrypts {secrets}, {named}: nothing can be sent to them.",
            hint="Add the previous key to WEBHOOKS_ENCRYPTION_KEYS, or rotate these secrets. "
            "`manage.py reencrypt_webhook_secrets --dry-run` examines all webhooks.",
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
