"""Encrypting every stored secret with the key that encrypts now, so that older keys can go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from django.db.models import Case, TextField, Value, When

from .encryption import decrypt, encrypt, is_current
from .exceptions import SecretUnreadableError
from .models import Webhook
from .models.sql import UtcNow

BATCH_SIZE = 500
"""Webhooks to a SELECT. Each secret is written by itself, so that no worker waits for a lock."""

COLUMNS = ("encrypted_secret", "encrypted_previous_secret")

_SIGNING_PREVIOUS = Case(
    When(previous_secret_until__gt=UtcNow(), then="encrypted_previous_secret"),
    default=Value(""),
    output_field=TextField(),
)


@dataclass(kw_only=True, slots=True)
class Reencrypted:
    """How many secrets there were of which kind."""

    current: int = 0
    renewed: int = 0
    unreadable: list[str] = field(default_factory=list)
    """The ids of the webhooks that have a secret which no key opens."""


def reencrypt(*, dry_run: bool = False, progress: Callable[[], None] = lambda: None) -> Reencrypted:
    """Encrypt anew what an older key encrypted, or only count it; ``progress`` is called after each webhook.

    May be interrupted, repeated, and run beside workers and rotations: a secret is replaced only where it still is
    what was read.
    """
    result = Reencrypted()
    if not dry_run:
        Webhook.objects.forget_ended_overlaps()
    for webhook_id, *tokens in _rows():
        for column, token in zip(COLUMNS, tokens, strict=True):
            _count(result, webhook_id, column, token, dry_run=dry_run)
        progress()
    return result


def _rows() -> Iterator[tuple[str, str, str]]:
    """Return every webhook with its secrets, deleted ones included, as they come and go meanwhile."""
    webhooks = Webhook.objects.order_by("pk").values_list("pk", "encrypted_secret", _SIGNING_PREVIOUS)
    batch = list(webhooks[:BATCH_SIZE])
    while batch:
        yield from batch
        batch = list(webhooks.filter(pk__gt=batch[-1][0])[:BATCH_SIZE])


def _count(result: Reencrypted, webhook_id: str, column: str, token: str | None, *, dry_run: bool) -> None:
    while token:
        if is_current(token):
            result.current += 1
            return
        try:
            text = decrypt(token)
        except SecretUnreadableError:
            if result.unreadable[-1:] != [webhook_id]:
                result.unreadable.append(webhook_id)
            return
        webhook = Webhook.objects.filter(pk=webhook_id)
        if dry_run or webhook.filter(**{column: token}).update(**{column: encrypt(text)}):
            result.renewed += 1
            return
        # It was rotated since it was read, or the webhook deleted.
        token = webhook.values_list(column, flat=True).first()
