"""``docs/guides/monitoring.md`` describes each metric, and its rules use existing metrics."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.utils import timezone

from webhooks_app.maintenance.jobs import gauge
from webhooks_app.metrics.collector import WebhooksCollector
from webhooks_app.models import MaintenanceJob

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "monitoring.md").read_text()
OURS = re.compile(r"\bwebhooks_(?!app)\w+")


@pytest.fixture
def names(db: None) -> set[str]:
    job = MaintenanceJob(name="gauges", ended_at=timezone.now())
    gauge("default", timezone.now(), job.facts)
    job.save()
    MaintenanceJob.objects.create(name="recent", facts={"standings": {"failing": 1}})
    return {f"{each.name}_total" if each.type == "counter" else each.name for each in WebhooksCollector().collect()}


def test_the_table_lists_exactly_the_metrics(names: set[str]) -> None:
    table = PAGE.partition("### Metrics")[2].partition("\n##")[0]
    rows = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]

    assert {name for row in rows for name in OURS.findall(row)} == names


def test_the_rules_use_existing_metrics(names: set[str]) -> None:
    [text] = re.findall(r"```yaml\n# webhooks.rules.yml\n(.*?)```", PAGE, re.DOTALL)
    rules: list[dict[str, Any]] = yaml.safe_load(text)["groups"][0]["rules"]

    named = {name for rule in rules for name in OURS.findall(rule["expr"])}

    assert len(rules) == 6
    assert named <= names
