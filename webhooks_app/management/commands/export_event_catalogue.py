"""``manage.py export_event_catalogue``"""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import CommandParser

from ... import catalogue
from ...owners import public_event_types
from ..base import WebhooksCommand


class Command(WebhooksCommand):
    help = (
        "Print the event catalogue: every event type available for subscription, with its fields and an example. "
        "Commit the JSON form to your repository as the reference for `check_event_types`."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--format",
            choices=["json-schema", "markdown", "openapi"],
            default="json-schema",
            help="JSON with a JSON Schema for each type, a Markdown page for integrators, or OpenAPI 3.1 with a "
            "`webhooks` section. Default: %(default)s.",
        )
        parser.add_argument(
            "--title", default="Event catalogue", help="The title of the page or the document. Default: %(default)s."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        event_types = public_event_types()
        if options["format"] == "markdown":
            self.result(catalogue.markdown_page(event_types, title=options["title"]).rstrip("\n"))
            return
        document = (
            catalogue.openapi_document(event_types, title=options["title"])
            if options["format"] == "openapi"
            else catalogue.json_document(event_types)
        )
        self.result(json.dumps(document, indent=2, ensure_ascii=False))
