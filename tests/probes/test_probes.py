"""The health endpoints."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import OperationalError, connection, connections
from django.test import Client
from django.utils import timezone

from webhooks_app.models import QueueEntry, WorkerProcess

from ..support.rows import emit_one, make_webhook

pytestmark = pytest.mark.django_db


def get(name):
    answer = Client().get(f"/health/{name}")
    assert answer.headers["Cache-Control"].startswith("max-age=0, no-cache, no-store")
    return answer.status_code, answer.json()["checks"]


@pytest.fixture
def worker():
    now = timezone.now()
    return WorkerProcess.objects.create(id="w", host="h", pid=1, version="1", started_at=now, seen_at=now)


def refuse(*args):
    raise OperationalError("the server is away, secret-host")


def test_a_process_is_live_without_the_database(django_assert_num_queries):
    with django_assert_num_queries(0):
        assert get("live") == (200, {})


def test_a_process_is_ready_with_a_migrated_database():
    assert get("ready") == (200, {"database": True})


def test_a_process_is_not_ready_without_the_database():
    with connection.execute_wrapper(refuse):
        answer = Client().get("/health/ready")

    assert (answer.status_code, answer.json()["checks"]) == (503, {"database": False})
    assert b"secret-host" not in answer.content


@pytest.mark.parametrize(("name", "status"), [("live", 200), ("ready", 503), ("delivery", 503)])
def test_the_endpoints_need_no_transaction_of_the_request(monkeypatch, name, status):
    for alias in connections:
        monkeypatch.setitem(connections.settings[alias], "ATOMIC_REQUESTS", True)

    with connection.execute_wrapper(refuse):
        found, checks = get(name)

    assert found == status
    assert not any(checks.values())


def test_delivery_is_healthy_with_a_worker_and_nothing_overdue(worker):
    assert get("delivery") == (200, {"workers": True, "punctual": True})


def test_delivery_is_failing_without_a_worker():
    assert get("delivery") == (503, {"workers": False, "punctual": True})


def test_a_worker_without_a_report_for_a_minute_does_not_count(worker):
    WorkerProcess.objects.update(seen_at=timezone.now() - timedelta(minutes=2))

    assert get("delivery") == (503, {"workers": False, "punctual": True})


def test_delivery_is_failing_with_an_overdue_delivery(worker):
    make_webhook(None)
    emit_one(None)
    QueueEntry.objects.update(due_at=timezone.now() - timedelta(minutes=6))

    assert get("delivery") == (503, {"workers": True, "punctual": False})


@pytest.mark.parametrize("name", ["live", "ready", "delivery"])
def test_only_safe_methods_are_allowed(name):
    assert Client().post(f"/health/{name}").status_code == 405
