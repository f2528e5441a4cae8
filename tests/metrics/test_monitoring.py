"""The dashboard and the alerts of ``deploy/monitoring``, with Prometheus itself."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from tests.docs.pages import blocks
from tests.support.missing import skip_without
from tests.support.servers import prometheus
from tests.support.servers.process import ServerMissingError
from tests.support.waiting import wait_until

from .conftest import TOKEN

FOLDER = Path(__file__).parents[2] / "deploy" / "monitoring"
RULES = FOLDER / "webhooks.rules.yml"
ALERTS = {rule["alert"]: rule for rule in yaml.safe_load(RULES.read_text())["groups"][0]["rules"]}
BOARD: dict[str, Any] = json.loads((FOLDER / "grafana.json").read_text())
QUERIES = [target["expr"] for panel in BOARD["panels"] for target in panel["targets"]]
OURS = re.compile(r"\bwebhooks_\w+")

STEADY = {"webhooks_workers": "2+0x40"}
CASES = {
    "WebhooksLate": ({"webhooks_oldest_due_seconds": "61+0x40"}, {"webhooks_oldest_due_seconds": "59+0x40"}),
    "WebhooksNoWorker": ({"webhooks_workers": "0+0x40"}, {"webhooks_workers": "1+0x40"}),
    "WebhooksMetricsAway": ({"webhooks_workers": "_x40"}, STEADY),
    "WebhooksWorkersLost": (
        {'webhooks_attempts_failed_total{result="worker_lost"}': "0+1x40"},
        {'webhooks_attempts_failed_total{result="timeout"}': "0+1x40"},
    ),
    "WebhooksShortOfDescriptors": (
        {"webhooks_workers_short_of_descriptors": "1+0x40"},
        {"webhooks_workers_short_of_descriptors": "0+0x40"},
    ),
    "WebhooksMaintenanceJobFails": (
        {'webhooks_maintenance_job_failed{name="mails"}': "1+0x40"},
        {'webhooks_maintenance_job_failed{name="mails"}': "0+0x40"},
    ),
    "WebhooksNoBeat": (
        {'webhooks_maintenance_job_age_seconds{name="beat"}': "301+0x40"},
        {'webhooks_maintenance_job_age_seconds{name="mails"}': "301+0x40"},
    ),
    "WebhooksMostlyFail": (
        {
            'webhooks_attempts_failed_total{result="dns_error"}': "0+100x40",
            'webhooks_deliveries_total{outcome="succeeded_at_once"}': "0+99x40",
        },
        {
            'webhooks_attempts_failed_total{result="dns_error"}': "0+99x40",
            'webhooks_deliveries_total{outcome="succeeded_at_once"}': "0+100x40",
        },
    ),
}
"""Series with a value each minute that fire an alert, and others that do not."""

pytestmark = pytest.mark.only_on("sqlite")


@pytest.fixture
def tool() -> Path:
    try:
        return prometheus.promtool()
    except ServerMissingError as error:
        skip_without(error)


def test_the_dashboard_shows_each_metric(names: set[str]) -> None:
    shown = {re.sub("_bucket$", "", name) for query in QUERIES for name in OURS.findall(query)}

    assert shown == names


def test_the_alerts_use_metrics_of_the_app(names: set[str]) -> None:
    used = {name for alert in ALERTS.values() for name in OURS.findall(alert["expr"])}

    assert used <= names
    assert all(alert["annotations"].keys() == {"summary", "description"} for alert in ALERTS.values())


def test_the_panels_do_not_overlap() -> None:
    places = [panel["gridPos"] for panel in BOARD["panels"]]
    cells = [
        {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])} for at in places
    ]

    assert all(first.isdisjoint(second) for first, second in combinations(cells, 2))
    assert max(x for each in cells for x, _ in each) < 24
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(places)


def test_an_alert_fires_when_it_should_and_not_otherwise(tool: Path, tmp_path: Path) -> None:
    assert CASES.keys() == ALERTS.keys()
    file = tmp_path / "tests.yml"
    file.write_text(
        yaml.safe_dump(
            {
                "rule_files": [str(RULES)],
                "evaluation_interval": "1m",
                "tests": [_test(alert, series, fires) for alert, fires, series in _cases()],
            }
        )
    )

    tested = subprocess.run([tool, "test", "rules", file], capture_output=True, text=True, check=False)

    assert tested.returncode == 0, tested.stdout + tested.stderr


def _cases() -> Iterator[tuple[str, bool, dict[str, str]]]:
    for alert, (bad, good) in CASES.items():
        yield alert, True, bad
        yield alert, False, good


def _test(alert: str, series: dict[str, str], fires: bool) -> dict[str, Any]:
    """Return a unit test of promtool, which compares an alert as Prometheus sends it at the 40th minute."""
    return {
        "name": f"{alert} {fires}",
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) or vector(0)',
                "eval_time": "40m",
                "exp_samples": [{"labels": "{}", "value": int(fires)}],
            }
        ],
    }


@pytest.mark.django_db(transaction=True)
def test_prometheus_reads_the_metrics_and_answers_each_query(live_server: Any, settings: Any, names: set[str]) -> None:
    settings.WEBHOOKS_METRICS_TOKEN = TOKEN
    try:
        with prometheus.running(_configuration(live_server.url), RULES) as url:
            targets = f"{url}/api/v1/targets"
            wait_until(lambda: _query(url, "up") == [1], lambda: requests.get(targets, timeout=30).text)

            loaded = requests.get(f"{url}/api/v1/rules", timeout=30).json()["data"]["groups"][0]["rules"]
            assert {rule["name"] for rule in loaded} == ALERTS.keys()
            for query in QUERIES:
                found = _query(url, query.replace("$__rate_interval", "5m").replace("$job", ".*"))
                assert found or "rate(" in query or "increase(" in query, query  # which need a second sample
            # Labels named as those of the target would be renamed.
            assert _query(url, '{exported_job!=""}') == []
            assert _query(url, 'webhooks_maintenance_job_failed{name="gauges"}') == [0]
    except ServerMissingError as error:
        skip_without(error)


def _configuration(site: str) -> str:
    """Return the configuration of the guide for this site, which is asked each second."""
    (text,) = [block.code for block in blocks("yaml", under=("guides/monitoring",)) if block.file == "prometheus.yml"]
    config = yaml.safe_load(text)
    (scraped,) = config["scrape_configs"]
    assert scraped["scheme"] == "https"
    scraped |= {"scheme": "http", "authorization": {"credentials": TOKEN}}
    assert scraped["static_configs"] == [{"targets": ["mysite.example.com"]}]
    scraped["static_configs"] = [{"targets": [site.removeprefix("http://")]}]
    return yaml.safe_dump({**config, "global": {"scrape_interval": "1s"}, "rule_files": [RULES.name]})


def _query(url: str, query: str) -> list[float]:
    """Return the values of an instant query."""
    answer = requests.get(f"{url}/api/v1/query", params={"query": query}, timeout=30).json()
    assert answer["status"] == "success", (query, answer)
    return [float(each["value"][1]) for each in answer["data"]["result"]]
