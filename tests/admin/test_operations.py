"""The operations page: contents, permission, and hidden secrets."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from celery import current_app
from django.db import DEFAULT_DB_ALIAS, connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from tests.support.reading import cells, named
from tests.support.servers.process import free_port
from webhooks_app.admin import operations_page
from webhooks_app.admin.operations_page import settings_in_force
from webhooks_app.conf import SECRETS, setting_types
from webhooks_app.emission import emit
from webhooks_app.maintenance.jobs import gauge
from webhooks_app.models import (
    Delivery,
    DeliveryAttempt,
    Event,
    MaintenanceJob,
    QueueEntry,
    Webhook,
    WebhookHealth,
    WorkerProcess,
)
from webhooks_app.models.maintenance import table_sizes

from .conftest import DATA, Page, shows, text


def operations(page: Page) -> Any:
    return page.get("operations")


def row(html: str, first: str) -> str:
    """Return the table row that starts with this cell."""
    return html.partition(f">{first}</th>")[2].partition("</tr>")[0]


@pytest.mark.parametrize(
    ("codenames", "status"),
    [
        pytest.param(["manage_all_webhooks", "view_webhook"], 200, id="manages all"),
        pytest.param(["view_webhook", "change_webhook", "view_delivery"], 403, id="other staff"),
    ],
)
def test_the_page_needs_the_permission_to_manage_all(
    staff: Callable[..., Page], codenames: list[str], status: int
) -> None:
    page = staff("boris", *codenames)

    assert operations(page).status_code == status
    link = reverse("admin:webhooks_app_operations_changelist")
    index = page.client.get(reverse("admin:app_list", args=["webhooks_app"]))
    assert (link in index.content.decode()) == (status == 200)


def test_workers_are_running_or_not_responding(superuser: Page) -> None:
    for host, seconds_ago in (("here", 5), ("there", 120)):
        seen_at = timezone.now() - timedelta(seconds=seconds_ago)
        WorkerProcess.objects.create(id=host, host=host, pid=12345, in_flight=7, started_at=seen_at, seen_at=seen_at)

    html = text(operations(superuser))

    assert "running" in row(html, "here")
    assert "not responding" in row(html, "there")
    assert "<td>12345</td>" in row(html, "here")


def test_the_forecast_is_that_of_the_last_count(superuser: Page, new_webhook: Any) -> None:
    webhook, now = new_webhook(None), timezone.now()
    emit("file.deleted", DATA, owner=None)
    QueueEntry.objects.update(due_at=now + timedelta(minutes=5))
    new_webhook(None).pause()
    emit("file.deleted", DATA, owner=None)
    assert "has not been counted yet" in text(operations(superuser))
    job = MaintenanceJob.objects.create(name="gauges", facts={})
    gauge(DEFAULT_DB_ALIAS, timezone.now() + timedelta(seconds=1), job.facts)
    job.save()
    failing = {
        "failing_since": now,
        "given_up_since": now - timedelta(days=2),
        "last_given_up_at": now,
        "given_up_count": 1234,
    }
    WebhookHealth.objects.create(webhook=webhook, **failing)

    page = text(operations(superuser))

    assert "1 delivery becomes due within the next hour." in page
    assert named(page, "Deliveries that become due, by minute").path["d"].startswith("M")
    assert "1" in cells(page, "Deliveries")
    assert '<th scope="row">paused</th><td>1</td>' in page
    assert '<th scope="row">not due</th><td>1</td>' in page
    assert "<td>1,234</td>" in page


def test_a_failed_job_shows_its_error(superuser: Page) -> None:
    MaintenanceJob.objects.create(name="fold", ended_at=timezone.now(), error="DataError: <too long>")

    assert "DataError: &lt;too long&gt;" in row(text(operations(superuser)), "fold")


def test_findings_are_ordered_by_severity(superuser: Page) -> None:
    found = operations(superuser).context["findings"]

    assert (found[0].finding.name, found[-1].finding.level.value) == ("workers", "ok")


def test_findings_of_system_checks_are_translated(superuser: Page, settings: Any) -> None:
    settings.WEBHOOKS_BATCH_SIZE = 0
    superuser.client.cookies[settings.LANGUAGE_COOKIE_NAME] = "de"

    finding = row(text(operations(superuser)), "webhooks_app.E002")

    assert "WEBHOOKS_BATCH_SIZE ist 0." in finding
    assert "Verwenden Sie einen Wert von 1 bis 5.000. Siehe " in finding


def test_an_unavailable_broker_delays_the_page_only_by_the_timeout(
    superuser: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = current_app.connection_for_write
    monkeypatch.setattr(current_app, "connection_for_write", lambda: connect(f"amqp://127.0.0.1:{free_port()}//"))

    assert "does not answer" in row(text(operations(superuser)), "broker")


def test_retention_by_type_is_shown(superuser: Page, settings: Any) -> None:
    settings.WEBHOOKS_ATTEMPT_RETENTION_DAYS = 12
    settings.WEBHOOKS_RETENTION_DAYS_BY_TYPE = {"file.deleted": 1}

    html = text(operations(superuser))

    assert "<dd>12 days</dd>" in html
    assert "<dt>file.deleted</dt><dd>1 day</dd>" in html


def test_a_setting_shows_its_value_and_source(superuser: Page, settings: Any) -> None:
    settings.WEBHOOKS_TIMEOUT_SECONDS = 12.5

    html = text(operations(superuser))

    assert "12.5" in row(html, "WEBHOOKS_TIMEOUT_SECONDS")
    assert "settings" in row(html, "WEBHOOKS_TIMEOUT_SECONDS")
    assert "500" in row(html, "WEBHOOKS_BATCH_SIZE")
    assert "default" in row(html, "WEBHOOKS_BATCH_SIZE")


def test_no_secret_is_shown(superuser: Page, settings: Any) -> None:
    settings.WEBHOOKS_ENCRYPTION_KEYS = ["a-secret-key", "SECRET_KEY"]
    settings.WEBHOOKS_METRICS_TOKEN = "a-secret-token-of-metrics"
    settings.WEBHOOKS_EGRESS_PROXY = "http://user:a-secret-password@proxy.example.com:3128"

    html = text(operations(superuser))

    assert "a-secret" not in html
    assert html.count("set (hidden)") == 3


def test_settings_with_secret_names_are_hidden() -> None:
    names = [setting.name for setting in settings_in_force()]

    assert names == list(setting_types())
    assert {
        name.removeprefix("WEBHOOKS_")
        for name in names
        if any(word in name for word in ("KEY", "TOKEN", "PASSWORD", "PROXY"))
    } == SECRETS


@pytest.mark.parametrize("value", [None, object(), "x" * 5000, {1: [2]}], ids=["None", "object", "long", "mapping"])
def test_an_invalid_value_is_shown(superuser: Page, settings: Any, value: Any) -> None:
    settings.WEBHOOKS_CA_BUNDLE = value

    assert shows(operations(superuser), "WEBHOOKS_CA_BUNDLE")


def test_table_sizes_are_plausible(transactional_db: None, new_webhook: Any, owner: Any) -> None:
    new_webhook(owner)
    for _ in range(30):
        emit("file.deleted", DATA, owner=owner)
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("ANALYZE")
        elif connection.vendor == "mysql":
            cursor.execute(f"ANALYZE TABLE {Event._meta.db_table}")

    sizes = {size.model: size for size in table_sizes(DEFAULT_DB_ALIAS)}

    assert {Delivery, DeliveryAttempt, Event, Webhook} <= sizes.keys()
    assert sizes[Event].rows == pytest.approx(30, abs=10)
    assert (sizes[Event].size is None) == (connection.vendor == "sqlite")
    assert sizes[Event].since == pytest.approx(timezone.now(), abs=timedelta(minutes=1))
    assert sizes[DeliveryAttempt].since is None


def test_the_number_of_queries_does_not_grow(
    superuser: Page, new_webhook: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webhooks_app.database.clock.MAX_QUERIES", 1)  # however slow the answer

    def asked() -> int:
        with CaptureQueriesContext(connection) as queries:
            operations(superuser)
        return len(queries)

    def work(number: int) -> None:
        for pid in range(number):
            new_webhook(superuser.user)
            emit("file.deleted", DATA, owner=superuser.user)
            now = timezone.now()
            WorkerProcess.objects.create(id=f"{number} {pid}", pid=pid, started_at=now, seen_at=now)

    work(1)
    asked()  # the first request of a process fills caches
    few = asked()
    work(20)

    assert asked() == few <= 40


@pytest.mark.parametrize(
    ("most_read", "note"),
    [(1000, "The first 50 of 52."), (51, "The first 50 of more than 51.")],
    ids=["all read", "more than are read"],
)
def test_the_number_of_webhooks_that_will_be_disabled_is_shown_if_not_all_are(
    superuser: Page, monkeypatch: pytest.MonkeyPatch, most_read: int, note: str
) -> None:
    monkeypatch.setattr(operations_page, "MAX_READ", most_read)
    since = timezone.now() - timedelta(days=1)
    made = Webhook.objects.bulk_create(Webhook(url=f"https://{each}.example/", status="active") for each in range(52))
    failing = {
        "failing_since": since,
        "given_up_since": since,
        "last_given_up_at": timezone.now(),
        "given_up_count": 100,
    }
    healths = [WebhookHealth(webhook=webhook, **failing) for webhook in made]
    WebhookHealth.objects.bulk_create(healths[:50])
    assert "The first 50" not in text(operations(superuser))

    WebhookHealth.objects.bulk_create(healths[50:])

    assert shows(operations(superuser), note)
