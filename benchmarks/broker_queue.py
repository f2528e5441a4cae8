"""The length of the workers' queue in the broker."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from amqp.exceptions import ChannelError

from .celery import app


@contextmanager
def length() -> Generator[Callable[[], int]]:
    """Yield a function that returns the length, over a separate connection."""
    with app.connection_for_read() as connection, connection.channel() as channel:
        yield lambda: _length(channel)


def _length(channel: Any) -> int:
    try:
        return int(channel.queue_declare(app.conf.task_default_queue, passive=True).message_count)
    except ChannelError:  # Redis has no empty queues.
        return 0
