"""``webhooks_doctor`` finds each broken part and returns the matching exit status."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from celery import current_app
from cryptography.fernet import Fernet
from django.core.management.base import CommandError
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone
from kombu import Connection

from webhooks_app.checks.wake import PRUNE_TASK, SWEEP_TASK
from webhooks_app.conf import settings as conf
from webhooks_app.database.clock import DatabaseClock
from webhooks_app.doctor import Finding, Level, examine, surroundings
from webhooks_app.doctor import delivery as examining_delivery
from webhooks_app.emission import emit
from webhooks_app.maintenance.runner import BEAT
from webhooks_app.models import Delivery, MaintenanceJob, QueueEntry, Webhook, WebhookHealth, WorkerProcess

from ..support.rows import make_webhook
from .conftest import Output

Run = Callable[..., Output]

DATA = {"file_id": "file_1", "user_id": "user_1", "filename": "a.pdf"}
SWEEP = {"task": SWEEP_TASK, "schedule": 5}
PRUNE = {"task": PRUNE_TASK, "schedule": 3600}


@pytest.fixture(autouse=True)
def _healthy(db: None, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings without findings of the doctor, independent of the test settings, and a running worker."""
    now = timezone.now()
    WorkerProcess.objects.create(id="here:1:1", host="here", pid=1, started_at=now, seen_at=now)
    MaintenanceJob.objects.create(name=BEAT, ended_at=now)
    settings.DEBUG = True
    monkeypatch.setitem(current_app.conf, "beat_scheduler", "celery.beat:PersistentScheduler")
    monkeypatch.setitem(current_app.conf, "beat_schedule", {"sweep": SWEEP, "prune": PRUNE})


def found(name: str) -> Finding:
    [finding] = [finding for finding in examine() if finding.name == name]
    return finding


def overdue(webhook: Webhook, by: timedelta) -> None:
    emit("file.deleted", DATA, owner=webhook.owner)
    QueueEntry.objects.update(due_at=timezone.now() - by)


def test_a_healthy_service_has_no_hints(webhook: Webhook) -> None:
    findings = examine()

    assert [finding for finding in findings if finding.level is not Level.OK] == []
    names = "settings deployment transport guard wake broker database clock keys workers jobs due receivers beat"
    assert [finding.name for finding in findings] == names.split()


def test_the_report_has_a_line_for_each_finding(run: Run, webhook: Webhook) -> None:
    lines = run("webhooks_doctor").stdout.splitlines()

    assert sum(line.startswith("ok ") for line in lines) == 14
    assert all(line.startswith(("ok ", " ")) for line in lines)


def test_a_warning_fails_only_where_it_is_asked_for(
    run: Run, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(current_app.conf, "beat_schedule", {"sweep": SWEEP})

    lines = run("webhooks_doctor").stdout.splitlines()
    with pytest.raises(CommandError, match="errors: 0, warnings: 1") as raised:
        run("webhooks_doctor", "--fail-level", "WARNING")

    assert [line.split()[1] for line in lines if line.startswith("warning")] == ["beat"]
    assert raised.value.returncode == 1


def test_an_error_has_exit_status_2(run: Run, webhook: Webhook, settings: Any) -> None:
    settings.WEBHOOKS_TRANSPORT = "pigeon"

    with pytest.raises(CommandError) as raised:
        run("webhooks_doctor")

    assert raised.value.returncode == 2


def test_json_has_exactly_the_findings(begin: Callable[..., Any], transactional_db: None) -> None:
    process = begin("webhooks_doctor", "--json")
    out, _ = process.communicate(timeout=60)

    findings = json.loads(out)
    assert all(set(finding) == {"name", "level", "found", "hint"} for finding in findings)
    assert process.returncode == {"ok": 0, "warning": 0, "error": 2}[worst(findings)]


def worst(findings: list[dict[str, str]]) -> str:
    return max((finding["level"] for finding in findings), key=["ok", "warning", "error"].index)


@pytest.mark.parametrize(
    ("setting", "value", "name", "words"),
    [
        pytest.param("TIMEOUT_SECONDS", -1, "webhooks_app.E002", "-1", id="number"),
        pytest.param("TRANSPORT", "pigeon", "webhooks_app.E007", "cannot be imported", id="transport"),
        pytest.param("ALLOWED_NETWORKS", ["169.254.0.0/16"], "guard", "169.254.169.254", id="metadata"),
        pytest.param("ALLOWED_NETWORKS", ["10.0.0.1/8"], "guard", "The examination failed", id="networks"),
    ],
)
def test_a_broken_setting_is_an_error(
    db: None, settings: Any, setting: str, value: object, name: str, words: str
) -> None:
    setattr(settings, f"WEBHOOKS_{setting}", value)

    finding = found(name)

    assert finding.level is Level.ERROR
    assert words in finding.found
    assert finding.hint


def test_deployment_checks_apply_if_debug_is_off(db: None, settings: Any) -> None:
    settings.DEBUG = False

    assert found("webhooks_app.W007").level is Level.WARNING


def test_with_debug_the_deployment_checks_are_one_remark(db: None) -> None:
    finding = found("deployment")

    assert finding.level is Level.OK
    assert "DEBUG is on" in finding.found
    assert "webhooks_app.W007" in finding.found
    assert "security.W" in finding.found


def test_without_debug_each_deployment_check_is_named_as_such(db: None, settings: Any) -> None:
    settings.DEBUG = False

    ours, djangos = found("webhooks_app.W007"), found("security.W004")

    assert ours.found.startswith("check --deploy: The first of WEBHOOKS_ENCRYPTION_KEYS")
    assert (djangos.level, djangos.found.partition(":")[0]) == (Level.WARNING, "check --deploy")


def test_a_silenced_check_is_not_reported(db: None, settings: Any) -> None:
    settings.DEBUG = False
    settings.SILENCED_SYSTEM_CHECKS = [
        "webhooks_app.W005",
        "webhooks_app.W006",
        "webhooks_app.W007",
        "webhooks_app.W008",
    ]

    assert found("settings").level is Level.OK


def test_a_guard_that_allows_private_addresses_is_an_error(db: None, settings: Any, monkeypatch: Any) -> None:
    settings.WEBHOOKS_ALLOWED_NETWORKS = []
    monkeypatch.setattr("webhooks_app.transport.refused_addresses.REFUSED_IPV4", ())

    finding = found("guard")

    assert finding.level is Level.ERROR
    assert "10.0.0.1" in finding.found or "169.254.169.254" in finding.found


def test_allowed_networks_are_named(db: None) -> None:
    assert "the settings allow 127.0.0.0/8, ::1/128" in found("guard").found
    assert conf.ALLOWED_NETWORKS


@pytest.mark.parametrize("answers", [False, True], ids=["refused", "silent"])
def test_an_unavailable_broker_is_an_error_within_the_timeout(
    db: None, monkeypatch: pytest.MonkeyPatch, answers: bool
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        if not answers:
            server.close()
        url = f"amqp://user:hidden-password@127.0.0.1:{port}//"
        monkeypatch.setattr(current_app, "connection_for_write", lambda: Connection(url))
        monkeypatch.setattr(examining_delivery, "BROKER_SECONDS", 0.3)

        finding = found("broker")

    assert finding.level is Level.ERROR
    assert f"127.0.0.1:{port}" in finding.found
    assert "hidden-password" not in finding.found


def test_an_unavailable_database_is_an_error(begin: Callable[..., Any]) -> None:
    process = begin("webhooks_doctor", "--json", TEST_DATABASE_URL="postgres://nobody@127.0.0.1:1/none")
    out, _ = process.communicate(timeout=60)

    [finding] = [finding for finding in json.loads(out) if finding["name"] == "database"]
    assert process.returncode == 2
    assert "does not answer" in finding["found"]


def test_tables_of_another_version_are_an_error(db: None) -> None:
    MigrationRecorder.Migration.objects.filter(app="webhooks_app").delete()

    finding = found("database")

    assert finding.level is Level.ERROR
    assert "migrate" in finding.hint


@pytest.mark.parametrize(
    ("apart", "level"),
    [
        pytest.param(timedelta(seconds=1), Level.OK, id="a second"),
        pytest.param(timedelta(seconds=20), Level.WARNING, id="seconds"),
        pytest.param(timedelta(minutes=5), Level.ERROR, id="minutes"),
    ],
)
@pytest.mark.only_on("postgresql", "mariadb")
def test_clocks_that_differ_are_found(
    db: None, monkeypatch: pytest.MonkeyPatch, apart: timedelta, level: Level
) -> None:
    monkeypatch.setattr(surroundings, "DatabaseClock", lambda using: lambda: DatabaseClock(using)() + apart)

    assert found("clock").level is level


def test_undecryptable_secrets_are_an_error(webhook: Webhook, settings: Any) -> None:
    settings.WEBHOOKS_ENCRYPTION_KEYS = [Fernet.generate_key().decode()]

    finding = found("keys")

    assert finding.level is Level.ERROR
    assert webhook.pk in finding.found


def test_tables_of_another_owner_model_are_an_error(webhook: Webhook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webhooks_app.checks.tables._referenced_table", lambda using: "elsewhere")

    finding = found("webhooks_app.E032")

    assert finding.level is Level.ERROR
    assert "elsewhere" in finding.found


@pytest.mark.parametrize(
    ("late", "level"),
    [
        pytest.param(timedelta(seconds=5), Level.OK, id="seconds"),
        pytest.param(timedelta(minutes=1), Level.WARNING, id="a minute"),
        pytest.param(timedelta(hours=1), Level.ERROR, id="an hour"),
    ],
)
def test_overdue_deliveries_are_found(webhook: Webhook, late: timedelta, level: Level) -> None:
    overdue(webhook, late)

    assert found("due").level is level


def test_without_workers_the_hint_is_to_start_one(webhook: Webhook) -> None:
    overdue(webhook, timedelta(hours=1))
    assert "estimate_capacity" in found("due").hint

    WorkerProcess.objects.all().delete()
    assert "estimate_capacity" not in found("due").hint
    assert "deliver_webhooks" in found("due").hint


def test_a_worker_short_of_descriptors_is_a_warning() -> None:
    WorkerProcess.objects.update(lacks_descriptors=True)

    finding = found("workers")

    assert finding.level is Level.WARNING
    assert finding.found == "Worker processes short of file descriptors: 1 (here:1)."
    assert "LimitNOFILE" in finding.hint


def test_failing_webhooks_are_counted_without_a_warning(webhook: Webhook) -> None:
    assert found("receivers").found == "No webhook is failing."
    WebhookHealth.objects.create(webhook=webhook, failing_since=timezone.now() - timedelta(hours=1))

    finding = found("receivers")

    assert (finding.level, finding.found) == (Level.OK, "Webhooks in trouble: Failing (1).")


def test_deliveries_awaiting_a_handshake_are_not_overdue(webhook: Webhook) -> None:
    overdue(webhook, timedelta(hours=1))
    Webhook.objects.update(status=Webhook.Status.PENDING)

    assert found("due").level is Level.OK


def test_the_oldest_delivery_is_found_among_many_webhooks(owner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webhooks_app.delivery.sql.MAX_LANES", 2)
    monkeypatch.setattr("webhooks_app.delivery.sql.portable.MAX_LANES", 2)
    for _ in range(5):
        make_webhook(owner, "file.deleted")
    emit("file.deleted", DATA, owner=owner)
    last = Delivery.objects.order_by("-webhook_id").first()
    QueueEntry.objects.filter(pk=last.pk).update(due_at=timezone.now() - timedelta(hours=1))

    assert found("due").level is Level.ERROR


@pytest.mark.parametrize(
    ("entries", "missing"),
    [
        pytest.param({}, [SWEEP_TASK, PRUNE_TASK], id="nothing"),
        pytest.param({"sweep": SWEEP}, [PRUNE_TASK], id="no pruning"),
    ],
)
def test_a_schedule_without_the_tasks_is_a_warning(
    db: None, monkeypatch: pytest.MonkeyPatch, entries: dict[str, Any], missing: list[str]
) -> None:
    monkeypatch.setitem(current_app.conf, "beat_schedule", entries)

    finding = found("beat")

    assert finding.level is Level.WARNING
    assert all(task in finding.found for task in missing)


def test_a_schedule_in_the_database_is_examined(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    beat = pytest.importorskip("django_celery_beat.models")
    monkeypatch.setitem(current_app.conf, "beat_scheduler", "django_celery_beat.schedulers:DatabaseScheduler")
    monkeypatch.setitem(current_app.conf, "beat_schedule", {})
    assert found("beat").level is Level.WARNING

    every, _ = beat.IntervalSchedule.objects.get_or_create(every=5, period="seconds")
    for task in (SWEEP_TASK, PRUNE_TASK):
        beat.PeriodicTask.objects.create(name=task, task=task, interval=every)
    assert found("beat").level is Level.OK

    monkeypatch.setitem(current_app.conf, "beat_schedule", {"sweep": SWEEP, "prune": PRUNE})
    beat.PeriodicTask.objects.filter(task=SWEEP_TASK).update(enabled=False)
    assert found("beat").level is Level.WARNING


@pytest.mark.parametrize("ever", [True, False], ids=["a while ago", "never"])
def test_missing_workers_are_an_error(db: None, ever: bool) -> None:
    if ever:
        WorkerProcess.objects.update(seen_at=timezone.now() - timedelta(minutes=5))
    else:
        WorkerProcess.objects.all().delete()

    assert found("workers").level is Level.ERROR


def test_a_failed_job_is_a_warning(db: None) -> None:
    MaintenanceJob.objects.create(name="fold", error="DataError: out of range")

    finding = found("jobs")

    assert finding.level is Level.WARNING
    assert "'fold' failed: DataError" in finding.found


@pytest.mark.parametrize("came_at", [None, timezone.now() - timedelta(minutes=5)], ids=["never", "a while ago"])
def test_a_silent_beat_is_a_warning(db: None, came_at: Any) -> None:
    MaintenanceJob.objects.filter(name=BEAT).update(ended_at=came_at)

    finding = found("beat")

    assert finding.level is Level.WARNING
    assert "celery beat" in finding.hint


def test_broker_and_beat_are_examined_only_with_celery(webhook: Webhook, settings: Any) -> None:
    settings.WEBHOOKS_WAKE = "none"

    findings = {finding.name: finding for finding in examine()}

    assert findings.keys().isdisjoint(["broker", "beat"])
    assert findings["wake"].found == "Workers poll the database."
