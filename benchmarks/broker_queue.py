"""How many messages wait in the workers' queue."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from amqp.exceptions import ChannelError

from .celery import app


@contextmanager
def length() -> Generator[Callable[[], int]]:
    """Yield a function that asks the broker, on a connection of its own."""
    with app.connection_for_read() as connection, connection.channel() as channel:
        yield lambda: _length(channel)


def _length(channel: Any) -> int:
    try:
        return int(channel.queue_declare(app.conf.task_default_queue, passive=True).message_count)
    except ChannelError:  # Redis has no queue where nothing waits.
        return 0
