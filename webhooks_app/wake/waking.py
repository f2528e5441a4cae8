"""The signal handler that wakes workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import router

from ..models import Delivery
from .registry import configured_wake
from .silence import is_silent


def wake_workers(webhook_ids: Sequence[str] = (), **kwargs: Any) -> None:
    """Signal handler of ``deliveries_created``."""
    if not is_silent():
        configured_wake().wake(router.db_for_write(Delivery), webhook_ids)
