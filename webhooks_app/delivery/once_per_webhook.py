"""Problems of webhooks that are logged once, although each request has them."""

from __future__ import annotations

MAX_REMEMBERED = 10_000
"""Webhooks with a logged problem."""


class OncePerWebhook:
    """Remembers the webhooks with a logged problem, to log it once. A full memory starts anew."""

    def __init__(self) -> None:
        self._webhook_ids: set[str] = set()

    def is_first(self, webhook_id: str) -> bool:
        """Return True the first time for each webhook."""
        if webhook_id in self._webhook_ids:
            return False
        if len(self._webhook_ids) >= MAX_REMEMBERED:
            self._webhook_ids.clear()
        self._webhook_ids.add(webhook_id)
        return True
