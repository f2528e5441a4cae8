"""The columns of a new delivery, and of its queue entry, that are not the defaults of their fields.

All writers of these rows use this description: the models, and the SQL statements of the outbox.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from typing import Any

from django.db import models

from ..retry import BaseRetryPolicy, pack_policy

FROM_POLICY: Mapping[str, Callable[[BaseRetryPolicy], Any]] = {
    "max_attempts": attrgetter("max_attempts"),
    "retry_policy": pack_policy,
}
"""Columns of a delivery, with their value by the retry policy of the webhook."""

COPIED = ("webhook_id", "event_id", "kind", "max_attempts", "retry_policy", "expires_at")
"""Columns of a queue entry that have the value of the delivery's column of the same name."""


def defaults(model: type[models.Model], *, besides: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the columns with a default other than NULL, and this default, except for the columns in ``besides``."""
    for field in model._meta.concrete_fields:
        if not field.generated and field.attname not in besides:
            default = field.get_default()
            if default is not None:
                yield field.attname, default
