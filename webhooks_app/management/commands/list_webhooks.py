"""``manage.py list_webhooks``"""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import CommandParser

from ...models import Webhook
from ...models.standing import healths_of
from ..base import OUTPUT_FORMATS, OWNER_HELP, WebhooksCommand, described, get_owner, printable


class Command(WebhooksCommand):
    help = "List the webhooks, the newest first: id, status, health, owner and URL. No secret is printed."

    def add_arguments(self, parser: CommandParser) -> None:
        owner = parser.add_mutually_exclusive_group()
        owner.add_argument("--owner", metavar="NAME|KEY", help=f"List only the webhooks of this owner. {OWNER_HELP}")
        owner.add_argument("--platform", action="store_true", help="List only the webhooks of the platform.")
        parser.add_argument("--status", choices=Webhook.Status.values, help="List only webhooks with this status.")
        parser.add_argument(
            "--limit", type=int, default=1000, metavar="N", help="List at most N webhooks. Default: %(default)s."
        )
        parser.add_argument("--format", choices=OUTPUT_FORMATS, default=OUTPUT_FORMATS[0], help="Default: %(default)s.")

    def handle(self, *args: Any, **options: Any) -> None:
        webhooks = Webhook.objects.existing().select_related("owner").order_by("-pk")
        if options["platform"]:
            webhooks = webhooks.filter(owner=None)
        elif options["owner"] is not None:
            webhooks = webhooks.filter(owner=get_owner(options["owner"]))
        if options["status"]:
            webhooks = webhooks.filter(status=options["status"])
        limit = max(1, options["limit"])
        found = list(webhooks[: limit + 1])
        rows = found[:limit]
        healths = healths_of(rows)
        listed = [{**described(each), "health": str(healths[each.pk].standing)} for each in rows]
        if options["format"] == "json":
            self.result(json.dumps(listed, indent=2, ensure_ascii=False))
        else:
            for each in listed:
                shown = (each["id"], each["status"], each["health"], each["owner"] or "-", each["url"])
                self.result(printable("  ".join(map(str, shown))))
        if len(found) > limit:
            self.note(f"There are more than {limit:,}. Choose another --limit.", role="WARNING")
        elif not listed:
            self.note("No webhooks found.")
