"""Wake-ups by the database."""

from __future__ import annotations

from collections.abc import Sequence

from ..delivery.notify import notify
from .base import BaseWake


class NotifyWake(BaseWake):
    """Notifies the engines of running workers by PostgreSQL's NOTIFY."""

    def wake(self, using: str, webhook_ids: Sequence[str]) -> None:
        notify(using, webhook_ids)
