"""``manage.py rotate_webhook_secret``"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from ...conf import known_signatures
from ...models import Webhook
from ...models.limits import MAX_SECRET_OVERLAP
from ...models.webhook_secret import SECRET
from ...operations.rotation import (
    activate_secret,
    revoke_previous_secret,
    rotate_secret,
    warning_about_key,
    withdraw_secret,
)
from ...protocol.json_data import format_time
from ..base import WebhooksCommand, get_webhook

MAX_HOURS = MAX_SECRET_OVERLAP // timedelta(hours=1)


class Command(WebhooksCommand):
    help = (
        "Replace the secret of a webhook, or its key of another signature scheme. Prints the new secret, or the public "
        "key of a new key pair."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("webhook_id", help="The webhook, wh_….")
        parser.add_argument("--scheme", default=SECRET, help="The signature scheme of the key. Default: %(default)s.")
        either = parser.add_mutually_exclusive_group()
        either.add_argument(
            "--overlap-hours",
            type=int,
            metavar="N",
            help=f"Hours until the old key expires, at most {MAX_HOURS}. Default: WEBHOOKS_SECRET_OVERLAP_SECONDS.",
        )
        either.add_argument(
            "--end-overlap",
            action="store_true",
            help="Expire the old key of an earlier rotation now, without a new one.",
        )
        either.add_argument("--activate", action="store_true", help="Activate the prepared key now.")
        either.add_argument("--withdraw", action="store_true", help="Delete the prepared key; the current one stays.")
        parser.add_argument(
            "--activate-in-hours",
            type=int,
            metavar="N",
            help=f"Prepare the key: it replaces the current one in N hours, at most {MAX_HOURS}. Default: at once, for "
            "example after a leak.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        webhook, scheme = get_webhook(options["webhook_id"]), options["scheme"]
        if options["end_overlap"]:
            has_overlap = webhook.previous_key(scheme) is not None
            revoke_previous_secret(webhook, actor=self.actor, scheme=scheme)
            self.note("The old key has expired." if has_overlap else "There is no old key.")
            return
        if options["activate"] or options["withdraw"]:
            is_prepared = webhook.prepared_key(scheme) is not None
            change = activate_secret if options["activate"] else withdraw_secret
            change(webhook, actor=self.actor, scheme=scheme)
            done = "The new key is active." if options["activate"] else "The new key is withdrawn."
            self.note(done if is_prepared else "There is no prepared key.")
            return
        overlap = _hours(options["overlap_hours"], "--overlap-hours")
        delay = _hours(options["activate_in_hours"], "--activate-in-hours")
        activate_at = None if delay is None else timezone.now() + delay
        key = rotate_secret(webhook, actor=self.actor, overlap=overlap, scheme=scheme, activate_at=activate_at)
        if warning := warning_about_key(webhook, scheme):
            self.note(warning, role="WARNING")
        self._describe_overlap(webhook, scheme)
        self.result(known_signatures()[scheme].verification_key(key))

    def _describe_overlap(self, webhook: Webhook, scheme: str) -> None:
        prepared, previous = webhook.prepared_key(scheme), webhook.previous_key(scheme)
        if prepared is not None and prepared.signs_from is not None:
            self.note(f"The old key signs as before until {format_time(prepared.signs_from)}.")
        if previous is not None and previous.valid_until is not None:
            self.note(f"The old key also signs until {format_time(previous.valid_until)}.")
        if not known_signatures()[scheme].is_asymmetric:
            self.note("Copy the secret now. It is not shown again.", role="WARNING")


def _hours(hours: int | None, option: str) -> timedelta | None:
    if hours is None:
        return None
    if not 0 <= hours <= MAX_HOURS:
        raise CommandError(f"{option} is {hours}, but must be 0 to {MAX_HOURS}.")
    return timedelta(hours=hours)
