"""A process that delivers, as upkeep sees it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from webhooks_app.models import ChoreState


@dataclass
class FakeDeliverer:
    in_flight: int = 3
    transport_name: str = "memory"


@pytest.fixture
def deliverer() -> FakeDeliverer:
    return FakeDeliverer()


@pytest.fixture
def chore_rows(db: None) -> None:
    """The rows of the chores that the tests do."""
    ChoreState.objects.ensure(["one", "other"])
