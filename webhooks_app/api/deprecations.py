"""The operations and fields of the API that will end."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.utils.http import http_date

NOTICE = timedelta(days=182)
"""The time that clients have at least to change, as ``docs/api.md`` promises."""


@dataclass(frozen=True, kw_only=True)
class Deprecation:
    """The end of an operation or a field. Raise ValueError if it comes too soon."""

    since: datetime
    ends_at: datetime
    """The earliest time at which it may end."""

    def __post_init__(self) -> None:
        if self.ends_at - self.since < NOTICE:
            raise ValueError(f"It ends {self.ends_at - self.since} after its deprecation, but must stay for {NOTICE}.")

    @property
    def headers(self) -> dict[str, str]:
        """The headers of an answer (RFC 9745 and RFC 8594)."""
        return {"Deprecation": f"@{self.since.timestamp():.0f}", "Sunset": http_date(self.ends_at.timestamp())}


DEPRECATED: dict[str, Deprecation] = {}
"""By the id of the operation, such as ``webhooks_pause``, or by the schema and the field, such as ``Webhook.url``."""


def mark_fields(schemas: dict[str, Any]) -> None:
    """Mark the fields that will end in the schemas of the OpenAPI document. Raise KeyError for an unknown one."""
    for name in DEPRECATED:
        schema, _, field = name.partition(".")
        if field:
            schemas[schema]["properties"][field]["deprecated"] = True
