"""The metrics page, parsed as by Prometheus."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from tests.management.conftest import begin, owner, receiver, webhook  # noqa: F401

TOKEN = "a-token-of-the-tests"

Samples = dict[tuple[str, ...], float]


@pytest.fixture
def scrape(settings: Any, client: Client) -> Callable[[], Samples]:
    """Return every value by metric name and label values."""
    settings.WEBHOOKS_METRICS_TOKEN = TOKEN

    def scrape() -> Samples:
        response = client.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
        assert response.status_code == 200
        families = text_string_to_metric_families(response.content.decode())
        return {
            (sample.name, *sample.labels.values()): sample.value for family in families for sample in family.samples
        }

    return scrape
