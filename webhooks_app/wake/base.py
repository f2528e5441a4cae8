"""The contract of a wake-up, and its base for everything that sends messages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from django.db import connections

from ..delivery.notify import notify
from .folding import FoldedCall


class BaseWake(ABC):
    """Wakes workers after a commit. Each process has one instance.

    A wake-up carries no state, and nothing depends on its arrival: workers find due deliveries by themselves too, with
    their sweep at the latest.
    """

    @abstractmethod
    def wake(self, using: str, webhook_ids: Sequence[str]) -> None:
        """Wake workers of the database ``using``: these webhooks, or any if none is named, have something due.

        Called after each commit, in its thread, which must not wait. An exception is logged.
        """


class BaseMessageWake(BaseWake):
    """Sends a message that has a task queue's worker call ``deliver_in_background`` or ``deliver_until_idle``.

    A process sends at most ten messages a second, in a thread for which a commit waits half a second at most. On
    PostgreSQL it notifies as well, which is faster where workers are running.
    """

    def __init__(self) -> None:
        self._send_folded = FoldedCall(self._send)

    @abstractmethod
    def send(self) -> None:
        """Send the message, without retries."""

    def wake(self, using: str, webhook_ids: Sequence[str]) -> None:
        notify(using, webhook_ids)
        self._send_folded()

    def _send(self) -> None:
        try:
            self.send()
        finally:
            connections.close_all()  # of this thread; some queues are tables
