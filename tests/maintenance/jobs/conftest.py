"""A worker process for maintenance tests."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from webhooks_app.models import MaintenanceJob


@dataclass
class FakeDeliverer:
    in_flight: int = 3
    transport_name: str = "memory"


@pytest.fixture
def deliverer() -> FakeDeliverer:
    return FakeDeliverer()


@pytest.fixture
def job_rows(db: None) -> None:
    """The rows of the test jobs."""
    MaintenanceJob.objects.ensure(["one", "other"])
