"""Workers and emitters behind pgbouncer in transaction mode, where no session belongs to one of them."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest
from django.db import connection

from webhooks_app.models import Delivery, DeliveryAttempt
from webhooks_app.receiver.local import Answers, LocalReceiver

from ..support.rows import make_webhook
from ..support.servers.pgbouncer import POOL_SIZE
from ..support.waiting import wait_until
from .conftest import ROOT, all_final, environment
from .test_celery import EMIT

pytestmark = [
    pytest.mark.only_on("postgresql"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(180),
]

SECRET = "a secret behind a pool"


@pytest.fixture
def database_url(pgbouncer):
    """The required setting of a project: no server-side cursors beyond a transaction."""
    name = connection.settings_dict["NAME"]
    return f"{pgbouncer.url}/{name}?DISABLE_SERVER_SIDE_CURSORS=true&CONN_MAX_AGE=60"


@pytest.fixture
def receiver():
    with LocalReceiver(secrets=[SECRET]) as receiver:
        yield receiver


def run(database_url, redis_url, directory, *command):
    variables = environment(redis_url, directory) | {"TEST_DATABASE_URL": database_url}
    subprocess.run([sys.executable, *command], cwd=ROOT, env=variables, check=True, capture_output=True)


def test_every_event_arrives_once(alice, redis_url, pgbouncer, database_url, start_worker, receiver, tmp_path):
    make_webhook(alice, url=receiver.url, secret=SECRET)
    start_worker(redis_url, TEST_DATABASE_URL=database_url)
    start_worker(redis_url, TEST_DATABASE_URL=database_url)

    run(database_url, redis_url, tmp_path, "-c", EMIT, "300")

    wait_until(all_final)
    arrived = Counter(received.event_id for received in receiver.events())
    assert len(arrived) == arrived.total() == 300
    clients, shared = pgbouncer.connections(connection.settings_dict["NAME"])
    assert clients > shared == POOL_SIZE


def test_retries_arrive_when_they_are_due(alice, redis_url, database_url, start_worker, receiver, tmp_path):
    receiver.answers = Answers(statuses=(500, 200))
    make_webhook(alice, url=receiver.url, secret=SECRET, retry_notices=False)
    start_worker(redis_url, TEST_DATABASE_URL=database_url)

    run(database_url, redis_url, tmp_path, "-c", EMIT, "20")

    wait_until(all_final)
    assert {delivery.state for delivery in Delivery.objects.all()} == {"succeeded"}
    assert Counter(DeliveryAttempt.objects.values_list("number", "result")) == {
        (1, "http_status"): 20,
        (2, "succeeded"): 20,
    }
    for first, second in attempts_by_delivery():
        assert (second.started_at - first.started_at).total_seconds() >= 1


def test_events_are_emitted_without_the_required_setting(alice, redis_url, pgbouncer, tmp_path):
    make_webhook(alice)
    database_url = f"{pgbouncer.url}/{connection.settings_dict['NAME']}"

    for _ in range(2):  # The second process finds the session of the first one.
        run(database_url, redis_url, tmp_path, "-c", EMIT, "20")

    assert Delivery.objects.count() == 40


def attempts_by_delivery():
    return [delivery.attempts.order_by("number") for delivery in Delivery.objects.all()]
