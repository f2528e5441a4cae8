"""The metrics page, parsed as by Prometheus."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from tests.management.conftest import begin, owner, receiver, webhook  # noqa: F401
from webhooks_app.maintenance.jobs import gauge
from webhooks_app.metrics.collector import WebhooksCollector
from webhooks_app.models import MaintenanceJob

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


@pytest.fixture
def names(db: None) -> set[str]:
    """Return the names of all metrics, those that the maintenance jobs count included."""
    job = MaintenanceJob(name="gauges", ended_at=timezone.now())
    gauge("default", timezone.now(), job.facts)
    job.save()
    MaintenanceJob.objects.create(name="recent", facts={"standings": {"failing": 1}})
    return {f"{each.name}_total" if each.type == "counter" else each.name for each in WebhooksCollector().collect()}
