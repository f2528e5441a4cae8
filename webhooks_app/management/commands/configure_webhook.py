"""``manage.py configure_webhook``"""

from __future__ import annotations

import getpass
import json
import sys
from typing import Any

from django.core.management.base import CommandError, CommandParser

from ...models import Webhook
from ...models.webhook import Order, Recovery
from ...operations.registration import describe_offer, update_webhook
from ..base import WebhooksCommand, get_webhook, read_json

CHOICES = ("signatures", "retry_policy", "accepted_statuses", "order", "recovery")
"""The options whose values are those of fields of the webhook."""


class Command(WebhooksCommand):
    help = (
        "Show or change the signatures, the retry policy, the accepted statuses, the order, the recovery, the "
        "filter and the headers of a webhook. Prints one JSON object with redacted header values. Choices without an "
        "option stay unchanged."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        subject = parser.add_mutually_exclusive_group(required=True)
        subject.add_argument("webhook_id", nargs="?", help="The webhook, wh_….")
        subject.add_argument(
            "--offered",
            action="store_true",
            help="Print the values that the settings offer, with explanations, as JSON, and change nothing.",
        )
        parser.add_argument(
            "--signatures",
            nargs="+",
            metavar="SCHEME",
            help="The signature schemes; each request is signed with all of them.",
        )
        parser.add_argument(
            "--retry-policy", metavar="NAME", help="The retry policy of new deliveries; '' for the default."
        )
        parser.add_argument(
            "--accepted-statuses",
            choices=Webhook.AcceptedStatuses.values,
            help="The statuses that confirm receipt: only 200, or 200 to 299.",
        )
        parser.add_argument(
            "--order",
            choices=Order.values,
            help="Deliveries to send one after another: none, all of the webhook, or those with the same ordering key.",
        )
        parser.add_argument(
            "--recovery",
            choices=Recovery.values,
            help="Who sends events that were missed during a failure again: a person, or the service.",
        )
        filters = parser.add_mutually_exclusive_group()
        filters.add_argument("--filter", metavar="JSON|@FILE|-", help="Send only events with matching data.")
        filters.add_argument("--clear-filter", action="store_true", help="Remove the filter.")
        parser.add_argument(
            "--headers",
            nargs="*",
            metavar="NAME",
            help="Replace all custom headers by these. Their values are read from standard input, one per line.",
        )
        parser.add_argument(
            "--basic-auth",
            metavar="USER",
            help="User name for basic authentication. The command prompts for the password or reads it from standard "
            "input. '' removes them.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["offered"]:
            _refuse_changes(options)
            self.result(json.dumps(describe_offer(), indent=2))
            return
        webhook = get_webhook(options["webhook_id"])
        changes = {name: options[name] for name in CHOICES if options[name] is not None}
        changes |= _filter_change(options)
        if options["headers"] is not None:
            _check_names(options["headers"])
            changes["headers"] = {name: _secret(f"Value of {name}: ") for name in options["headers"]}
        if options["basic_auth"] is not None:
            user = options["basic_auth"]
            changes["basic_auth"] = (user, _secret("Password: ")) if user else None
        if changes:
            update_webhook(webhook, actor=self.actor, **changes)
        self.result(json.dumps(_choices(webhook), indent=2, ensure_ascii=False))


def _refuse_changes(options: dict[str, Any]) -> None:
    """Raise CommandError if ``--offered`` is combined with an option that changes a webhook."""
    names = (*CHOICES, "filter", "headers", "basic_auth")
    given = [name for name in names if options[name] is not None] + ["clear_filter"] * options["clear_filter"]
    if given:
        option = given[0].replace("_", "-")
        raise CommandError(f"--offered changes nothing. Remove --{option}, or name a webhook instead of --offered.")


def _check_names(names: list[str]) -> None:
    """Raise CommandError if a header is named twice, before its values are read."""
    found: set[str] = set()
    for name in names:
        if name.lower() in found:
            raise CommandError(f"--headers: {name!r} is given twice; names are case-insensitive.")
        found.add(name.lower())


def _filter_change(options: dict[str, Any]) -> dict[str, Any]:
    if options["clear_filter"]:
        return {"filter": None}
    if options["filter"] is None:
        return {}
    if options["filter"] == "-" and (options["headers"] or options["basic_auth"]):
        raise CommandError("Standard input is used for header values. Read the filter from a file: --filter @FILE.")
    return {"filter": read_json(options["filter"], noun="The filter")[0]}


def _choices(webhook: Webhook) -> dict[str, Any]:
    return {
        **{name: getattr(webhook, name) for name in (*CHOICES, "filter", "headers")},
        "public_keys": {key["key"]: key["scheme"] for key in webhook.public_keys},
    }


def _secret(prompt: str) -> str:
    """Prompt for a value without echo, or read a line of standard input."""
    if sys.stdin.isatty():
        return getpass.getpass(prompt)
    line = sys.stdin.readline()
    if not line:
        raise CommandError("Standard input has too few lines: one per value is required.")
    return line.rstrip("\r\n")
