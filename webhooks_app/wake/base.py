"""The contract of a wake-up, and a base class for wake-ups that send messages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from django.db import connections

from ..delivery.notify import notify
from .folding import FoldedCall


class BaseWake(ABC):
    """Wakes workers after a commit. Each process has one instance.

    A wake-up carries no state. If one is lost, a running engine finds the due deliveries with its next sweep. Workers
    without a running engine find them with the next wake-up.
    """

    @abstractmethod
    def wake(self, using: str, webhook_ids: Sequence[str]) -> None:
        """Wake workers of the database ``using`` for due deliveries of these webhooks, or of any if none is named.

        Called after each commit in the committing thread, so it must not block. Exceptions are logged.
        """


class BaseMessageWake(BaseWake):
    """Sends a message that makes a task queue's worker call ``deliver_in_background`` or ``deliver_until_idle``.

    A process sends at most ten messages a second, from a separate thread, so commits do not wait for them. On
    PostgreSQL it also sends a NOTIFY, which is faster if workers are running.
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
            connections.close_all()  # of this thread, because some queues are tables
