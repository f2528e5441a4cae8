"""Rows with hostile values in any column, from fixtures, data migrations or raw SQL, beside healthy ones.

Every database refuses some of the values. The others are stored, one in a delivery of its own for each of them.
"""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from django.db import DatabaseError, connection, models, transaction
from django.utils import timezone

from webhooks_app.delivery.engine import Engine
from webhooks_app.encryption import encrypt
from webhooks_app.maintenance.jobs import JOBS, run_due
from webhooks_app.maintenance.retention import prune
from webhooks_app.models import Delivery, Event, MaintenanceJob, QueueEntry, QueueLane, SigningKey, Webhook
from webhooks_app.outbound import transport_options
from webhooks_app.transport.memory import MemoryTransport

from ..support.engines import at_work
from ..support.rows import EVENT_TYPE, URL, emit_one, make_webhook
from ..support.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

MODELS = (Webhook, SigningKey, Delivery, Event, QueueEntry, QueueLane)
KEYS = {"id", "webhook", "delivery"}
"""The columns that tell which row is whose. A row without them belongs to nothing."""

TEXTS = (
    "",
    "x",
    "x" * 40,
    "x" * 2000,
    "x" * 100_000,
    "\0",
    "\n\r",
    "\x9b31m💥",
    "https://[bad",
    "https://a:b@[::1",
    "-1",
)
NAMES = ("unknown", "active", "disabled", "event", "verification", "retry_notice", "webhook", "2xx", "name:1,x,nan")
NUMBERS = (-1, 0, 1, 255, 2**15 - 1, 2**15, 2**16 - 1, 2**31 - 1, 2**62, -(2**62), "x", "")
FLOATS = (0, -1.0, 5e-324, 1e308, "NaN", "Infinity", "-Infinity", "x")
TRUTHS = (2, -1, "x", "")
TIMES = (
    *("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "1970-01-01 00:00:00", "2026-01-01", "0000-00-00 00:00:00"),
    *("infinity", "-infinity", "4713-01-01 00:00:00 BC", "294276-12-31", "2026-01-01 00:00:00+15:59", "x", "", "0", 5),
)
JSONS = (
    *("null", "0", "5", '"x"', "true", "[]", "{}", "[1]", "[null]", '["x"]', '[["x"]]', "[[1,2,3]]", '[["x","y"]]'),
    *('{"x":1}', '{"x":[1]}', '{"1":[1,"x"]}', '{"1":["x",1e308]}', '{"1":[1e308,1e308]}', '{"$and":{}}', "{", ""),
    *("[" * 400 + "]" * 400, json.dumps("x" * 70_000)),
)


def values_for(field):
    if isinstance(field, models.JSONField):
        return JSONS
    if isinstance(field, models.DateTimeField):
        return TIMES
    if isinstance(field, models.BooleanField):
        return TRUTHS
    if isinstance(field, models.FloatField):
        return FLOATS
    if isinstance(field, models.IntegerField):
        return NUMBERS
    if field.is_relation:
        return ("0" * 32, "f" * 32, 2**62, "x", "")
    return (*TEXTS, *NAMES)


def columns_of(model):
    return [field for field in model._meta.concrete_fields if field.name not in KEYS and not field.generated]


def key_of(model, delivery):
    """Return the column and the digits that find the row of this delivery in a table."""
    if model in (Delivery, QueueEntry):
        return model._meta.pk.column, delivery.pk[-32:]
    if model is Event:
        return "id", delivery.event_id[-32:]
    return ("id" if model is Webhook else "webhook_id"), delivery.webhook_id[-32:]


def store(model, field, value, delivery):
    """Store a value in a column of a delivery's row, unless the database refuses it."""
    key, digits = key_of(model, delivery)
    quote = connection.ops.quote_name
    sql = f"UPDATE {quote(model._meta.db_table)} SET {quote(field.column)} = %s WHERE {quote(key)} = %s"
    with suppress(DatabaseError, ValueError, OverflowError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(sql, [value, digits])


@pytest.fixture
def victims(alice):
    """Create a delivery to a webhook of its own for each hostile value of each column of a table."""

    def create(model):
        cases = [
            (field, value)
            for field in columns_of(model)
            for value in [*values_for(field), *([None] if field.null else [])]
        ]
        body, key = emit_one(alice).body, encrypt("whsec_of_a_test_1234567890")
        hook = {"owner": alice, "url": URL, "event_types": ["file.deleted"], "status": "active"}
        webhooks = Webhook.objects.bulk_create([Webhook(**hook) for _ in cases])
        SigningKey.objects.bulk_create(
            [SigningKey(webhook=each, scheme="native", encrypted_key=key) for each in webhooks]
        )
        QueueLane.objects.ensure([each.pk for each in webhooks])
        events = Event.objects.bulk_create(
            [Event(type=EVENT_TYPE, owner=alice, body=body, created_at=timezone.now()) for _ in cases]
        )
        pairs = zip(events, webhooks, strict=True)
        with transaction.atomic():
            deliveries = Delivery.objects.bulk_create([Delivery(event=event, webhook=hook) for event, hook in pairs])
            QueueEntry.objects.add(deliveries)
        for (field, value), delivery in zip(cases, deliveries, strict=True):
            store(model, field, value, delivery)
        return deliveries

    return create


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.model_name)
def test_a_hostile_row_ends_no_more_than_its_own_delivery(victims, bob, model, caplog):
    caplog.set_level(logging.DEBUG, "webhooks_app")
    hostile = victims(model)
    healthy = make_webhook(bob)
    transport = MemoryTransport(transport_options())
    with at_work(Engine(transport=transport, database_thread=True)) as engine:
        for number in range(1, 4):
            emit_one(bob)
            wait_until(lambda number=number: healthy.deliveries.filter(state="succeeded").count() == number)
            wait_until(lambda: not engine.in_flight)

    assert len([each for each in transport.requests if each.owner == str(bob.pk)]) == 3
    assert not [record for record in caplog.records if "Waiting for the database" in record.getMessage()]
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(errors) <= 2 * len(hostile)
    assert run_jobs() == {job.name: "" for job in JOBS}
    prune()


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        pytest.param("signatures", "[]", "list of signature schemes is empty or damaged", id="no signature"),
        pytest.param("signatures", "7", "list of signature schemes is empty or damaged", id="signatures"),
        pytest.param("encrypted_headers", "[7]", "own headers are damaged", id="headers"),
        pytest.param("encrypted_headers", '{"x":1}', "own headers are damaged", id="headers of another shape"),
    ],
)
def test_a_row_without_a_request_is_a_failed_attempt_with_a_reason(alice, column, value, message):
    webhook, transport = make_webhook(alice), MemoryTransport(transport_options())
    event = emit_one(alice)
    delivery = webhook.deliveries.get(event=event)
    store(Webhook, Webhook._meta.get_field(column), value, delivery)

    Engine(transport=transport).run_until_idle(await_retries=False)

    attempt = delivery.attempts.get()
    assert (attempt.result, transport.requests) == ("internal_error", [])
    assert message in attempt.message


@pytest.mark.parametrize("stored", ["name:1,x,nan", "name:1e400", "name:-1e9", "unknown", ":"])
def test_an_unreadable_retry_policy_is_replaced_by_the_default(alice, stored):
    webhook = make_webhook(alice, retry_notices=False)
    delivery = webhook.deliveries.get(event=emit_one(alice))
    QueueEntry.objects.update(retry_policy=stored)

    Engine(transport=MemoryTransport(transport_options(), answer=500)).run_until_idle(await_retries=False)

    delivery.refresh_from_db()
    assert (delivery.state, delivery.last_result, delivery.attempts.count()) == ("pending", "http_status", 1)
    assert 0 < (delivery.entry.due_at - delivery.attempts.get().started_at).total_seconds() < 60


def test_an_attempt_that_exists_already_is_not_repeated_for_ever(alice):
    webhook, transport = make_webhook(alice, retry_notices=False), MemoryTransport(transport_options(), answer=500)
    delivery = webhook.deliveries.get(event=emit_one(alice))
    Engine(transport=transport).run_until_idle(await_retries=False)
    QueueEntry.objects.update(attempt=0, due_at=delivery.created_at)

    Engine(transport=transport).run_until_idle(await_retries=False)

    delivery.refresh_from_db()
    assert (delivery.state, delivery.state_reason, delivery.attempts.count()) == ("cancelled", "unrecordable", 1)


def run_jobs():
    """Run each job, and return its error."""
    MaintenanceJob.objects.ensure([job.name for job in JOBS])
    run_due("default", lambda: datetime.now(UTC))
    return dict(MaintenanceJob.objects.values_list("name", "error"))
