"""The backlog of a webhook that is not active: neither looks nor claims nor health checks read it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import connection

from webhooks_app import send_test_event
from webhooks_app.delivery.sql import oldest_due_at
from webhooks_app.models import QueueEntry, Webhook
from webhooks_app.operations.actors import PROJECT
from webhooks_app.operations.lifecycle import start_verification

from ..support.plans import recorded_plans, rows_read, update_statistics
from ..support.rows import EVENT_TYPE, make_backlog, make_webhook, unverified

pytestmark = pytest.mark.django_db

BACKLOG = 1200


@pytest.fixture(params=["none", "webhook"])
def held(request, alice) -> Webhook:
    """A webhook with a new URL and a backlog."""
    webhook = make_webhook(alice, order=request.param)
    make_backlog(webhook, BACKLOG)
    start_verification(unverified(webhook), actor=PROJECT)
    return webhook


@pytest.fixture
def reads(queue, clock) -> dict[str, Callable[[], object]]:
    return {
        "a claim": lambda: queue.claim(100),
        "a claim from a notification": lambda: queue.claim_of(Webhook.objects.values_list("pk", flat=True), 100),
        "a health check": lambda: oldest_due_at("default", clock()),
    }


READS = ["a claim", "a claim from a notification", "a health check"]


@pytest.mark.only_on("postgresql", "mariadb")
@pytest.mark.usefixtures("new_tables")
@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("with_handshake", [True, False])
def test_few_rows_are_read(held, queue, reads, read, with_handshake):
    if not with_handshake:
        queue.claim(100)
    update_statistics()

    # MariaDB reads the index of webhooks completely.
    assert rows_read(reads[read]) < 500 + (BACKLOG if connection.vendor == "mysql" else 0)


@pytest.mark.only_on("sqlite")
@pytest.mark.parametrize("read", READS)
def test_its_handshake_is_found_by_an_index(held, reads, read):
    with recorded_plans() as plans:
        reads[read]()

    assert any("INDEX webhooks_queue_probes (webhook_id=? AND due_at" in step for step in plans.of(QueueEntry))


def test_its_handshake_and_tests_are_claimed(held, queue):
    send_test_event(held, EVENT_TYPE)

    claims = queue.claim(100)
    assert sorted(claim.kind for claim in claims + queue.claim(100)) == ["test", "verification"]


def test_a_lost_claim_of_an_event_is_claimed(alice, queue, clock):
    webhook = make_webhook(alice)
    make_backlog(webhook, BACKLOG)
    lost = queue.claim(3)
    webhook.await_verification()
    clock.advance(60)

    assert {claim.delivery_id for claim in queue.claim(100) if claim.is_lost} == {claim.delivery_id for claim in lost}


def test_the_oldest_due_delivery_is_the_handshake(held, clock):
    assert oldest_due_at("default", clock()) == QueueEntry.objects.get(kind="verification").due_at
