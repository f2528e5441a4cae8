"""The end of a command by a signal: the first one lets it finish, the second ends it at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from types import FrameType

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stopped_by_signal(stop: Callable[[], None]) -> Iterator[None]:
    """Call ``stop`` on the first SIGTERM or SIGINT. The next one raises KeyboardInterrupt.

    ``stop`` runs in a separate thread: a signal handler interrupts the main thread and must not wait for a lock that
    the main thread holds.
    """
    asked: SimpleQueue[bool] = SimpleQueue()

    def wait_for_signal() -> None:
        if asked.get():
            stop()

    def handle(signal_number: int, frame: FrameType | None) -> None:
        for number in STOP_SIGNALS:
            signal.signal(number, signal.default_int_handler)
        asked.put(True)

    threading.Thread(target=wait_for_signal, name="webhooks_app.stop", daemon=True).start()
    with _signals_handled_by(handle):
        yield
    asked.put(False)


@contextmanager
def _signals_handled_by(handle: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # Only the main thread gets signals.
        return
    before = {number: signal.signal(number, handle) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
