"""An engine in a thread of this process, as in a worker."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connections

from webhooks_app.delivery.engine import Engine


@contextmanager
def at_work(engine: Engine) -> Iterator[Engine]:
    def work() -> None:
        try:
            engine.run()
        finally:
            connections.close_all()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield engine
    finally:
        engine.stop()
        thread.join()
