"""The fixtures of the delivery tests: an engine that delivers to receivers in this process."""

import pytest
from django.core.cache import cache

from ..delivery.conftest import clock, deliver, queue, receiver, webhook  # noqa: F401


@pytest.fixture(autouse=True)
def _unthrottled():
    cache.clear()
