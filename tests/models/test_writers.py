"""Every writer of a delivery's row and of its queue entry fills the same columns."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from django.db import connection
from django.utils import timezone

import webhooks_app
from tests.maintenance.recovery.conftest import Outage
from tests.support.rows import EVENT_TYPE, emit_one, end_deliveries, make_webhook, plan_replay
from tests.support.statements import statements_of
from webhooks_app.conf import retry_policy
from webhooks_app.delivery.engine import Engine
from webhooks_app.emission import Operational, emit_operational, outbox
from webhooks_app.event_types import WEBHOOK_DISABLED
from webhooks_app.models import Delivery, QueueEntry, Webhook
from webhooks_app.models.delivery_columns import COPIED, FROM_POLICY
from webhooks_app.operations.actors import PROJECT
from webhooks_app.operations.lifecycle import start_verification
from webhooks_app.operations.sending import send_test_event
from webhooks_app.replays.runner import advance

from ..delivery.conftest import ImpatientTransport, ManualClock, Receiver

pytestmark = pytest.mark.django_db

POLICY = "extended"


@pytest.fixture
def webhook(alice):
    return make_webhook(alice, retry_policy=POLICY)


@pytest.fixture(autouse=True)
def _unprepared(monkeypatch):
    """Execute the statement of the outbox as it is written, instead of a prepared one."""
    monkeypatch.setattr(outbox, "UNPREPARED_EVENTS", 1000)
    outbox._statement.cache_clear()
    yield
    outbox._statement.cache_clear()


def given_up(webhook):
    event = emit_one(webhook.owner)
    end_deliveries(state="given_up", finished_at=timezone.now())
    return event.deliveries.get()


def emit_in_order(webhook):
    Webhook.objects.filter(pk=webhook.pk).update(order="webhook")
    emit_one(webhook.owner)


def emit_unsure(webhook):
    Webhook.objects.filter(pk=webhook.pk).update(filter={"error": {"$gone": 1}})
    emit_one(webhook.owner)


def emit_about_a_webhook(webhook):
    make_webhook(None, WEBHOOK_DISABLED.name, retry_policy=POLICY)
    emit_operational("default", [Operational(WEBHOOK_DISABLED, webhook.pk, WEBHOOK_DISABLED.example)])


def verify(webhook):
    Webhook.objects.filter(pk=webhook.pk).update(status=Webhook.Status.PENDING)
    start_verification(webhook, actor=PROJECT)


def replay(webhook):
    given_up(webhook)
    planned = plan_replay(webhook, since=webhook.created_at)
    planned.start()
    advance("default", planned.pk, timezone.now())


def fail(webhook):
    Webhook.objects.filter(pk=webhook.pk).update(retry_policy="")
    emit_one(webhook.owner)
    Engine(transport=ImpatientTransport(clock := ManualClock(), Receiver(500)), clock=clock).run_until_idle()


def recover(webhook):
    Webhook.objects.filter(pk=webhook.pk).update(recovery="automatic", retry_notices=False, retry_policy="")
    webhook.refresh_from_db()
    outage = Outage(webhook)
    outage.emit()
    outage.work()
    outage.wait(1)


@dataclass(frozen=True, kw_only=True)
class Writer:
    act: Callable[[Webhook], object]
    kind: str = "event"
    policy: str = POLICY
    own: frozenset[str] = frozenset()
    """Columns in which the rows differ from those of an event."""


WRITERS = {
    "event": Writer(act=lambda webhook: emit_one(webhook.owner)),
    "event in order": Writer(act=emit_in_order),
    "event that awaits its filter": Writer(act=emit_unsure),
    "operational event": Writer(act=emit_about_a_webhook),
    "test": Writer(act=lambda webhook: send_test_event(webhook, EVENT_TYPE, actor=PROJECT), kind="test"),
    "redelivery": Writer(act=lambda webhook: given_up(webhook).redeliver(), own=frozenset({"redelivery_of_id"})),
    "handshake": Writer(act=verify, kind="verification", policy=""),
    "notice": Writer(act=fail, kind="retry_notice", policy="", own=frozenset({"max_attempts", "expires_at"})),
    "replay": Writer(act=replay, own=frozenset({"replay_id", "redelivery_of_id"})),
    "recovery attempt": Writer(act=recover, policy="", own=frozenset({"purpose", "max_attempts", "redelivery_of_id"})),
}

MODULES = {
    "delivery/recording.py": 1,
    "emission/emitting.py": 1,
    "models/delivery.py": 1,
    "replays/runner.py": 1,
}
"""The modules that make instances of Delivery, each in one place. ``emission/outbox.py`` has statements instead."""

OF_RESULTS = {"state", "state_reason", "last_result", "attempt_count", "finished_at", "is_masked"}


def inserted(model, statements):
    """Return the columns of each insertion into a table."""
    statements = [*statements, *prepared(statements)]
    found = re.findall(rf"INSERT INTO [`\"]?{model._meta.db_table}[`\"]? \(([^)]*)\)", "\n".join(statements))
    return [set(re.findall(r"\w+", columns)) for columns in found]


def prepared(statements):
    """Return the text of the statements that a session of PostgreSQL executes by their names."""
    if connection.vendor != "postgresql":
        return []
    with connection.cursor() as cursor:
        cursor.execute("SELECT name, statement FROM pg_prepared_statements")
        return [text for name, text in cursor if any(f"EXECUTE {name}" in each for each in statements)]


def filled(model):
    return {field.attname for field in model._meta.concrete_fields if not field.null and not field.generated}


@pytest.mark.parametrize("writer", WRITERS.values(), ids=list(WRITERS))
def test_every_writer_fills_the_columns_as_described(webhook, writer):
    statements = statements_of(lambda: writer.act(webhook))

    for model in (Delivery, QueueEntry):
        insertions = inserted(model, statements)
        assert insertions
        assert all(filled(model) <= columns for columns in insertions)
    delivery = Delivery.objects.filter(kind=writer.kind).select_related("webhook").order_by("-pk")[0]
    policy = retry_policy(writer.policy)
    expected = {name: value(policy) for name, value in FROM_POLICY.items()}
    event = Delivery(webhook=delivery.webhook, kind=writer.kind, **expected)
    own = {"id", "event_id", "created_at", "failure", *OF_RESULTS, *writer.own}
    names = {field.attname for field in Delivery._meta.concrete_fields} - own
    assert {name: getattr(delivery, name) for name in names} == {name: getattr(event, name) for name in names}
    assert all(getattr(delivery, name) is not None for name in writer.own)


@pytest.mark.parametrize("writer", WRITERS.values(), ids=list(WRITERS))
def test_every_queue_entry_repeats_the_columns_of_its_delivery(webhook, writer):
    writer.act(webhook)

    entries = list(QueueEntry.objects.select_related("delivery"))
    assert all(getattr(entry, name) == getattr(entry.delivery, name) for entry in entries for name in COPIED)


def test_a_new_delivery_has_no_result(webhook):
    emit_one(webhook.owner)

    delivery = webhook.deliveries.get()
    assert (delivery.state, delivery.state_reason, delivery.attempt_count, delivery.finished_at) == (
        "pending",
        "",
        0,
        None,
    )
    assert (delivery.last_result, delivery.is_masked) == ("", False)


def test_columns_of_both_tables_are_copied():
    of_delivery, of_entry = ({field.attname for field in model._meta.fields} for model in (Delivery, QueueEntry))

    assert set(COPIED) == of_delivery & of_entry


def test_every_module_that_makes_deliveries_is_known():
    package = Path(webhooks_app.__file__).parent
    texts = {str(path.relative_to(package)): path.read_text() for path in package.rglob("*.py")}
    made = {name: len(re.findall(r"(?<!class )\bDelivery\(", text)) for name, text in texts.items()}

    assert {name: number for name, number in made.items() if number} == MODULES
