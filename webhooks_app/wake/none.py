"""No wake-up."""

from __future__ import annotations

from collections.abc import Sequence

from .base import BaseWake


class NoWake(BaseWake):
    """Does nothing: workers find due deliveries by themselves."""

    def wake(self, using: str, webhook_ids: Sequence[str]) -> None:
        """Do nothing."""
