"""``manage.py create_webhook``"""

from __future__ import annotations

import getpass
import json
import sys
from typing import Any

from django.core.management.base import CommandError, CommandParser

from ...models import Delivery, Webhook
from ...operations.registration import register_webhook
from ..base import OUTPUT_FORMATS, OWNER_HELP, WebhooksCommand, described, follow, get_owner


class Command(WebhooksCommand):
    help = (
        "Create a webhook and queue its verification. Prints its id and, on the second line, its secret, which is not "
        "shown again. `configure_webhook` changes its choices."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("url", help="The URL to which events are sent.")
        owner = parser.add_mutually_exclusive_group(required=True)
        owner.add_argument("--owner", metavar="NAME|KEY", help=f"The owner of the webhook. {OWNER_HELP}")
        owner.add_argument(
            "--platform", action="store_true", help="Create a webhook of the platform, which gets the events of all."
        )
        parser.add_argument(
            "--events",
            nargs="+",
            required=True,
            metavar="TYPE",
            help="The event types to send. `list_event_types` lists them.",
        )
        parser.add_argument("--description", default="", help="A text for lists. Default: empty.")
        parser.add_argument(
            "--own-secret",
            action="store_true",
            help="Use a secret of your own, which the command prompts for or reads from standard input.",
        )
        parser.add_argument("--wait", action="store_true", help="Show each attempt of the verification until its end.")
        parser.add_argument("--format", choices=OUTPUT_FORMATS, default=OUTPUT_FORMATS[0], help="Default: %(default)s.")

    def handle(self, *args: Any, **options: Any) -> None:
        webhook = register_webhook(
            owner=None if options["platform"] else get_owner(options["owner"]),
            url=options["url"],
            event_types=options["events"],
            description=options["description"],
            secret=_own_secret() if options["own_secret"] else None,
            actor=self.actor,
        )
        if options["format"] == "json":
            self.result(json.dumps({**described(webhook), "secret": webhook.secret}, indent=2, ensure_ascii=False))
        else:
            self.result(f"{webhook.pk}\n{webhook.secret}")
        if sys.stdout.isatty():
            self.note("Copy the secret now. It is not shown again.", role="WARNING")
        if options["wait"]:
            self._wait(webhook)

    def _wait(self, webhook: Webhook) -> None:
        handshake = Delivery.objects.get(webhook=webhook, kind=Delivery.Kind.VERIFICATION)
        self.note(f"Sending a challenge to {webhook.url} …")
        if follow(handshake, self.note).state != Delivery.State.SUCCEEDED:
            webhook.refresh_from_db()
            raise CommandError(f"The verification failed: {webhook.status_reason}")


def _own_secret() -> str:
    """Prompt for the secret without echo, or read a line of standard input."""
    return getpass.getpass("Secret: ") if sys.stdin.isatty() else sys.stdin.readline().rstrip("\r\n")
