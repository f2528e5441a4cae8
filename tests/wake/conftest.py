from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from celery import Celery

from tests.support.celery import app

from ..support.rows import make_webhook


@pytest.fixture
def webhook(alice: Any) -> Any:
    return make_webhook(alice, url="https://receiver.invalid/", retry_notices=False)


@pytest.fixture
def host_celery() -> Iterator[Callable[..., Celery]]:
    """Replace the test project's Celery app by one with these settings."""

    def host_celery(**values: Any) -> Celery:
        host = Celery("host", set_as_current=False)
        host.conf.update(values)
        host.set_current()
        return host

    yield host_celery
    app.set_current()
