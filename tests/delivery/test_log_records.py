"""Log records of attempts, with stable attributes."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from webhooks_app import send_test_event
from webhooks_app.delivery.engine import Engine
from webhooks_app.maintenance.jobs import Job, run_due
from webhooks_app.maintenance.retention import prune
from webhooks_app.models import DeliveryAttempt, MaintenanceJob, Webhook

from ..support.rows import EVENT_TYPE, emit_one, make_webhook
from .conftest import ImpatientTransport

pytestmark = pytest.mark.django_db

DEPLOYMENT = Path(__file__).parents[2] / "docs" / "guides" / "monitoring.md"
OF_EVERY_RECORD = set(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


def attributes(record: logging.LogRecord) -> dict[str, Any]:
    """Return the additional attributes of a record, for a JSON formatter."""
    found = {name: value for name, value in vars(record).items() if name not in OF_EVERY_RECORD}
    return dict(json.loads(json.dumps(found)))


def documented(logger: str) -> set[str]:
    [row] = [line for line in DEPLOYMENT.read_text().splitlines() if line.startswith(f"| `{logger}` |")]
    return set(re.findall(r"`(\w+)`", row.split("|")[3]))


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Callable[..., list[dict[str, Any]]]:
    def logged(name: str) -> list[dict[str, Any]]:
        return [attributes(record) for record in caplog.records if record.name == f"webhooks_app.{name}"]

    return logged


@pytest.mark.parametrize("url", ["https://[bad", "https://[::1", "x", ""])
def test_a_url_that_cannot_be_parsed_is_logged_without_its_host(
    webhook: Webhook, receiver: Any, deliver: Any, logged: Any, caplog: Any, url: str, alice: Any
) -> None:
    emit_one(alice)
    Webhook.objects.update(url=url)
    caplog.set_level(logging.DEBUG, "webhooks_app.attempts")

    deliver(receiver(200))

    assert {record["host"] for record in logged("attempts")} == {"an unknown host"}
    assert set(DeliveryAttempt.objects.values_list("result", flat=True)) == {"address_refused"}


@pytest.mark.parametrize(
    ("level", "answers", "results"),
    [
        pytest.param(logging.DEBUG, [503, 200], ["http_status", "succeeded"], id="debug"),
        pytest.param(logging.INFO, [503, 200], [], id="info, delivered in the end"),
        pytest.param(logging.INFO, [503], ["http_status"], id="info, given up"),
        pytest.param(logging.WARNING, [503], [], id="warning"),
    ],
)
def test_the_log_level_depends_on_the_outcome(
    webhook: Webhook,
    receiver: Any,
    deliver: Any,
    caplog: Any,
    logged: Any,
    level: int,
    answers: list[int],
    results: list[str],
) -> None:
    caplog.set_level(level, "webhooks_app.attempts")
    emit_one(webhook.owner)

    deliver(receiver(*answers))

    assert [each["result"] for each in logged("attempts") if each["event_type"] != "webhook.retry"] == results


def test_the_attributes_of_an_attempt_are_those_of_its_row(
    webhook: Webhook, receiver: Any, clock: Any, caplog: Any, logged: Any
) -> None:
    caplog.set_level(logging.DEBUG, "webhooks_app.attempts")
    event = emit_one(webhook.owner)

    Engine(transport=receiver(503), clock=clock).run_until_idle(await_retries=False)

    attempt = DeliveryAttempt.objects.get(delivery__kind="event")
    assert [each for each in logged("attempts") if each["event_type"] != "webhook.retry"] == [
        {
            "webhook_id": webhook.pk,
            "delivery_id": attempt.delivery_id,
            "event_id": event.pk,
            "event_type": event.type,
            "kind": "event",
            "host": "127.0.0.1",
            "attempt": 1,
            "result": "http_status",
            "duration_ms": attempt.duration_ms,
            "state": "pending",
        }
    ]
    assert logged("attempts")[0].keys() == documented("webhooks_app.attempts")


def test_a_record_contains_the_kind_the_webhook_and_the_host(
    webhook: Webhook, receiver: Any, deliver: Any, caplog: Any
) -> None:
    caplog.set_level(logging.INFO, "webhooks_app.attempts")
    delivery = send_test_event(webhook, EVENT_TYPE)

    deliver(receiver(503))

    said = (
        f"Attempt 4 of test {delivery.pk} to webhook {webhook.pk} at 127.0.0.1: http_status; the delivery is given up."
    )
    assert caplog.messages == [said]


def test_a_failed_notice_is_not_logged_as_given_up(webhook: Webhook, clock: Any, caplog: Any) -> None:
    caplog.set_level(logging.DEBUG, "webhooks_app.attempts")
    emit_one(webhook.owner)

    Engine(transport=ImpatientTransport(clock, 503), clock=clock).run_until_idle()

    notices = [record for record in caplog.records if record.kind == "retry_notice"]
    assert {record.levelno for record in notices} == {logging.DEBUG}
    assert all(record.getMessage().endswith("a notice is not repeated.") for record in notices)


def test_many_given_up_deliveries_of_a_webhook_share_a_record(
    webhook: Webhook, receiver: Any, deliver: Any, caplog: Any
) -> None:
    caplog.set_level(logging.INFO, "webhooks_app.attempts")
    other = make_webhook(webhook.owner)
    for _ in range(30):
        emit_one(webhook.owner)

    deliver(receiver(503))

    assert len(caplog.messages) == 4
    for pk in (webhook.pk, other.pk):
        assert (
            f"29 more deliveries were given up for webhook {pk} at 127.0.0.1; the last result is http_status."
            in caplog.messages
        )


def test_a_pruning_logs_its_counts(caplog: Any, logged: Any) -> None:
    caplog.set_level(logging.INFO, "webhooks_app.retention")

    prune()

    [found] = logged("retention")
    assert found.keys() == documented("webhooks_app.retention")
    assert (found["events"], found["is_complete"]) == (0, True)


def test_a_job_that_fails_is_named(caplog: Any, logged: Any) -> None:
    def fail(using: str, now: Any, facts: Any) -> None:
        raise ArithmeticError("It does not add up.")

    job = Job(name="sums", every_seconds=5, run=fail)
    MaintenanceJob.objects.ensure(["sums"])

    run_due("default", timezone.now, [job])

    assert logged("maintenance") == [{"job": "sums"}]
    assert documented("webhooks_app.maintenance") == {"job"}
