"""``estimate_capacity``"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from django.core.management.base import CommandError

from webhooks_app.management.commands.estimate_capacity import ExpectedLoad, Policy, plan

from ..support.commands import Output

Run = Callable[..., Output]

LOAD = ExpectedLoad(events_per_second=100, webhooks_per_event=3, latency_seconds=0.5)
POLICY = Policy(
    max_attempts=4,
    retry_notices=True,
    in_flight_per_process=2000,
    in_flight_per_webhook=16,
    attempt_days=30,
    event_days=90,
)


def test_a_plan_without_failures_is_a_product() -> None:
    found = plan(LOAD, POLICY)

    assert (found.deliveries_per_second, found.requests_per_second) == (300, 300)
    assert found.in_flight == 150
    assert found.rows_inserted_per_second == 100 + 300 + 300
    assert found.rows_updated_per_second == 600


def test_each_retry_has_a_notice() -> None:
    found = plan(replace(LOAD, failing_share=0.5), POLICY)

    assert found.retries_per_second == 300 * (0.5 + 0.25 + 0.125)
    assert found.notices_per_second == found.retries_per_second
    assert found.requests_per_second == 300 + 2 * found.retries_per_second
    assert plan(replace(LOAD, failing_share=0.5), replace(POLICY, retry_notices=False)).notices_per_second == 0


def test_receivers_that_are_all_down_cost_every_attempt() -> None:
    found = plan(replace(LOAD, failing_share=1), replace(POLICY, retry_notices=False))

    assert found.requests_per_second == 4 * 300


@pytest.mark.parametrize(
    ("load", "reason"),
    [
        pytest.param(LOAD, "restart", id="a small load"),
        pytest.param(replace(LOAD, latency_seconds=30), "in flight", id="slow receivers"),
        pytest.param(replace(LOAD, events_per_second=10_000), "CPU", id="many events"),
    ],
)
def test_the_scarcest_resource_determines_the_processes(load: ExpectedLoad, reason: str) -> None:
    found = plan(load, POLICY)

    assert reason in found.bound_by
    assert found.processes >= max(2, found.cores, found.in_flight / 2000)


@pytest.mark.parametrize("seconds", [5, 10])
def test_a_plan_uses_a_quarter_of_the_slots_of_each_process(seconds: float) -> None:
    found = plan(replace(LOAD, latency_seconds=seconds), POLICY)

    assert found.processes == found.in_flight / 500


def test_throughput_of_a_webhook_follows_its_cap_and_latency() -> None:
    found = plan(LOAD, POLICY)

    assert found.deliveries_per_second_per_webhook == 32
    assert found.webhooks_at_least == 10


def test_longer_retention_keeps_more() -> None:
    assert plan(LOAD, POLICY).gb_kept < plan(LOAD, replace(POLICY, attempt_days=90)).gb_kept


def test_the_command_prints_the_plan_and_its_assumptions(run: Run, settings: object) -> None:
    settings.WEBHOOKS_MAX_IN_FLIGHT_PER_WEBHOOK = 4  # type: ignore[attr-defined]

    output = run("estimate_capacity", "--events", "100", "--webhooks", "3", "--latency", "2", "--failing", "0").stdout

    assert "deliveries           300.0/s\n" in output
    assert "in flight            600, all processes together\n" in output
    assert "one webhook          2.0 requests/s at most\n" in output
    assert "webhooks at least    150," in output
    assert "- Retention: attempts 30 days, events and deliveries 90." in output


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        pytest.param(["--events", "0"], "--events is 0", id="no events"),
        pytest.param(["--events", "1", "--latency", "-1"], "--latency is -1", id="negative latency"),
        pytest.param(["--events", "nan"], "--events is nan", id="not a number"),
        pytest.param(["--events", "1", "--failing", "101"], "--failing is 101", id="more than all"),
    ],
)
def test_an_invalid_load_is_refused(run: Run, arguments: list[str], problem: str) -> None:
    with pytest.raises(CommandError, match=problem):
        run("estimate_capacity", *arguments)
