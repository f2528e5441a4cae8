"""Rows with hostile values in any column beside healthy ones."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from functools import partial

import pytest

from webhooks_app.conf import transport_options
from webhooks_app.delivery.engine import Engine
from webhooks_app.maintenance.jobs import JOBS, run_due
from webhooks_app.maintenance.retention import prune
from webhooks_app.models import Delivery, Event, MaintenanceJob, QueueEntry, QueueLane, SigningKey, Webhook
from webhooks_app.transport.memory import MemoryTransport

from ..support.engines import at_work
from ..support.hostile import make_victims, spoiled, store
from ..support.rows import emit_one, make_webhook
from ..support.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

MODELS = (Webhook, SigningKey, Delivery, Event, QueueEntry, QueueLane)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.model_name)
def test_a_hostile_row_ends_no_more_than_its_own_delivery(alice, bob, model, caplog):
    caplog.set_level(logging.DEBUG, "webhooks_app")
    hostile = spoiled(model, partial(make_victims, alice))
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
