"""``manage.py reencrypt_webhook_secrets``"""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from ...maintenance.reencryption import Reencrypted, count, reencrypt
from ...plurals import counted
from ..base import ProgressBar, WebhooksCommand

MAX_NAMED = 100


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
        for webhook_id in result.unreadable[:MAX_NAMED]:
            self.note(f"No key decrypts the secret of {webhook_id}.", role="ERROR")
        raise CommandError(
            f"{counted(len(result.unreadable), 'webhook has', 'webhooks have')} a secret that no configured key "
            "decrypts. Nothing can be sent to them. Add the previous key to WEBHOOKS_ENCRYPTION_KEYS and run this "
            "command again, or rotate the secrets."
        )
