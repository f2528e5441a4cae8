"""``manage.py reencrypt_webhook_secrets``"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import models

from ...database.sql import writing
from ...encryption import decrypt, encrypt, is_current
from ...exceptions import SecretUnreadableError
from ...models import SigningKey, Webhook
from ...plurals import counted
from ..base import ProgressBar, WebhooksCommand

MAX_NAMED_ROWS = 100


class Command(WebhooksCommand):
    help = (
        "Encrypt the webhooks' secrets with the first of WEBHOOKS_ENCRYPTION_KEYS, so that you can remove the other "
        "keys. Safe to interrupt, to repeat and to run while workers deliver."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="Only count the secrets under other keys.")

    def handle(self, *args: Any, **options: Any) -> None:
        bar = ProgressBar(self.stderr, total=count(), unit="secrets")
        try:
            result = reencrypt(dry_run=options["dry_run"], progress=bar.advance)
        except KeyboardInterrupt:
            raise CommandError(
                "Stopped. Secrets encrypted so far keep the new key. Run the command again to finish.", returncode=130
            ) from None
        finally:
            bar.end()
        self._report(result, "would be re-encrypted" if options["dry_run"] else "re-encrypted")

    def _report(self, result: Reencrypted, verb: str) -> None:
        renewed = counted(result.renewed, "secret")
        self.result(f"{renewed} {verb}, {counted(result.current, 'already uses', 'already use')} the first key.")
        if not result.unreadable:
            return
        for webhook_id in result.unreadable[:MAX_NAMED_ROWS]:
            self.note(f"No key decrypts the secret of {webhook_id}.", role="ERROR")
        raise CommandError(
            f"{counted(len(result.unreadable), 'webhook has', 'webhooks have')} a secret that no configured key "
            "decrypts. Nothing can be sent to them. Add the previous key to WEBHOOKS_ENCRYPTION_KEYS and run this "
            "command again, or rotate the secrets."
        )


BATCH_SIZE = 500
"""Keys per SELECT. Each key has an update of its own, so that no worker waits for a lock."""


@dataclass(kw_only=True, slots=True)
class Reencrypted:
    """Numbers of stored secrets."""

    current: int = 0
    renewed: int = 0
    unreadable: list[str] = field(default_factory=list)
    """The ids of the webhooks with a secret that no key can decrypt."""


def count() -> int:
    """Return the number of steps: signing keys, and webhooks with headers of their own."""
    return SigningKey.objects.valid().count() + _webhooks_with_headers().count()


def reencrypt(*, dry_run: bool = False, progress: Callable[[], None] = lambda: None) -> Reencrypted:
    """Re-encrypt the secrets of older keys, or only count them. Call ``progress`` after each secret.

    Can be interrupted, repeated, and run concurrently with workers and rotations: an update applies only to an
    unchanged secret.
    """
    result = Reencrypted()
    if not dry_run:
        SigningKey.objects.delete_expired()
    for key in _keys():
        _renew(result, key, dry_run=dry_run)
        progress()
    for webhook in _webhooks_with_headers().order_by("pk").iterator(BATCH_SIZE):
        _renew_headers(result, webhook, dry_run=dry_run)
        progress()
    return result


def _webhooks_with_headers() -> models.QuerySet[Webhook]:
    return Webhook.objects.exclude(encrypted_headers=[], pending_headers=[])


def _renew_headers(result: Reencrypted, webhook: Webhook, *, dry_run: bool) -> None:
    with nullcontext() if dry_run else writing(webhook.alias, Webhook):
        saved = Webhook.objects.filter(pk=webhook.pk)
        for found in saved if dry_run else saved.select_for_update():
            for field_name in ("encrypted_headers", "pending_headers"):
                stored = getattr(found, field_name)
                renewed = [[name, _renewed(result, found.pk, token, dry_run=dry_run)] for name, token in stored]
                if renewed != stored:
                    saved.update(**{field_name: renewed})


def _renewed(result: Reencrypted, webhook_id: str, token: str, *, dry_run: bool) -> str:
    """Count the encrypted value of a header, and return it encrypted with the first key."""
    if is_current(token):
        result.current += 1
        return token
    try:
        text = decrypt(token)
    except SecretUnreadableError:
        if webhook_id not in result.unreadable:
            result.unreadable.append(webhook_id)
        return token
    result.renewed += 1
    return token if dry_run else encrypt(text)


def _keys() -> Iterator[SigningKey]:
    """Return every valid signing key, including those of deleted webhooks and those added meanwhile."""
    keys = SigningKey.objects.valid().order_by("pk")
    batch = list(keys[:BATCH_SIZE])
    while batch:
        yield from batch
        batch = list(keys.filter(pk__gt=batch[-1].pk)[:BATCH_SIZE])


def _renew(result: Reencrypted, key: SigningKey, *, dry_run: bool) -> None:
    if is_current(key.encrypted_key):
        result.current += 1
        return
    try:
        text = decrypt(key.encrypted_key)
    except SecretUnreadableError:
        if key.webhook_id not in result.unreadable:
            result.unreadable.append(key.webhook_id)
        return
    stored = SigningKey.objects.filter(pk=key.pk, encrypted_key=key.encrypted_key)
    # The update does not match a key rotated since. Its successor follows later in the loop.
    if dry_run or stored.update(encrypted_key=encrypt(text)):
        result.renewed += 1
