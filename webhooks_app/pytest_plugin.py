"""Fixtures for the tests of a project that sends webhooks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .testing import Webhooks


@pytest.fixture
def webhooks(db: None) -> Iterator[Webhooks]:
    """The webhooks of this test: its events, a scriptable receiver, and ``deliver()`` without waiting."""
    # This module is imported in every test run of the host, even before Django is set up.
    from .testing import Webhooks  # noqa: PLC0415

    with Webhooks() as webhooks:
        yield webhooks
