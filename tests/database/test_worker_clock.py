"""Rows of a worker whose machine has a wrong clock: all times and identifiers are those of the database."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.apps import apps
from django.db.models import DateTimeField
from django.utils import timezone

from webhooks_app.conf import transport_options
from webhooks_app.database.clock import DatabaseClock
from webhooks_app.delivery.engine import Engine
from webhooks_app.event_types import OPERATIONAL_EVENT_TYPES
from webhooks_app.maintenance.jobs import JOBS, run_due
from webhooks_app.models import AuditEntry, Delivery, Event, MaintenanceJob, Rollup, Webhook
from webhooks_app.models.fields import IdField
from webhooks_app.protocol import ids
from webhooks_app.transport.memory import MemoryTransport

from ..support.retries import QUICK
from ..support.rows import emit_one, make_webhook, plan_replay

pytestmark = pytest.mark.django_db


@contextmanager
def wrong_clock(hours: int) -> Iterator[None]:
    """Set the clock of the machine wrong within the block. The clock of the database is right."""
    span = timedelta(hours=hours)

    class Wrong(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.now(tz) + span

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timezone, "datetime", Wrong)
        patch.setattr(ids, "time", SimpleNamespace(time_ns=lambda: time.time_ns() + int(span.total_seconds() * 1e9)))
        yield


def work(hours: int) -> None:
    """Deliver everything to receivers that fail, and run all jobs, in a worker with a wrong clock."""
    MaintenanceJob.objects.ensure([job.name for job in JOBS])
    MaintenanceJob.objects.update(next_run_at=timezone.now() - timedelta(minutes=1))
    clock = DatabaseClock("default")
    with wrong_clock(hours):
        Engine(transport=MemoryTransport(transport_options(), answer=500), clock=clock).run_until_idle()
        run_due("default", clock)


def wrong_times() -> list[str]:
    """Return the columns, identifiers and envelopes with times of the wrong clock."""
    found = []
    for model in apps.get_app_config("webhooks_app").get_models():
        if model is Rollup:  # begins with a day or an hour
            continue
        for row in model._base_manager.all():
            for field in model._meta.concrete_fields:
                value = getattr(row, field.attname)
                if isinstance(field, IdField) and value:
                    value = ids.time_of(value)
                if isinstance(field, IdField | DateTimeField) and value and _is_wrong(value):
                    found.append(f"{model.__name__}.{field.name}")
    created = [json.loads(event.body)["created"] for event in Event.objects.all()]
    return found + [text for text in created if _is_wrong(datetime.fromisoformat(text))]


def _is_wrong(moment: datetime) -> bool:
    return timedelta(minutes=30) < abs(moment - datetime.now(UTC)) < timedelta(minutes=90)


@pytest.mark.parametrize("hours", [1, -1], ids=["fast", "slow"])
def test_a_worker_with_a_wrong_clock_writes_the_time_of_the_database(alice: Any, settings: Any, hours: int) -> None:
    settings.WEBHOOKS_RETRY_POLICIES = [QUICK]
    make_webhook(None, *(event_type.name for event_type in OPERATIONAL_EVENT_TYPES))
    failing = make_webhook(alice)
    make_webhook(alice, status="pending")
    emit_one(alice)

    work(hours)
    plan_replay(failing).start()
    work(hours)

    assert wrong_times() == []
    assert not any(map(_is_wrong, Rollup.objects.filter(resolution="minute").values_list("start", flat=True)))
    assert Webhook.objects.filter(status="failed").exists()
    assert AuditEntry.objects.filter(action="webhook.verification_failed").exists()
    assert Delivery.objects.filter(kind="retry_notice").exists()
    assert Delivery.objects.filter(replay__isnull=False).exists()
    assert Event.objects.filter(type="delivery.given_up").exists()
