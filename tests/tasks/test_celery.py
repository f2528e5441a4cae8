"""Real workers and brokers: every event is sent once, even if messages are lost."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

from webhooks_app.models import Delivery, DeliveryAttempt

from ..support.rows import emit_one, make_webhook
from ..support.servers.process import free_port
from ..support.waiting import wait_until
from .conftest import ROOT, SlowReceiver, all_final, environment

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(180)]

EMIT = """
import sys, time, django
django.setup()
import tests.support.celery
from django.contrib.auth import get_user_model
from webhooks_app import emit
started = time.monotonic()
for _ in range(int(sys.argv[1])):
    emit("ppt.generation.failed", {"error": "x"}, owner=get_user_model().objects.get())
print(time.monotonic() - started)
"""


def emit_elsewhere(broker_url, directory, count=1):
    """Emit in a process that uses this broker. Return the duration in seconds."""
    command = [sys.executable, "-c", EMIT, str(count)]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(broker_url, directory), capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def received_ids(receiver, path):
    return [json.loads(request.body)["id"] for request in receiver.received(path)]


def test_every_event_arrives_once(alice, broker_url, start_worker, nginx, tmp_path, request):
    path = f"/{request.node.callspec.id}-{time.time_ns()}"
    make_webhook(alice, url=nginx.url + path)
    start_worker(broker_url)

    emit_elsewhere(broker_url, tmp_path, 300)

    wait_until(all_final)
    assert Delivery.objects.filter(state="succeeded").count() == 300
    wait_until(lambda: len(received_ids(nginx, path)) >= 300)
    assert len(received_ids(nginx, path)) == len(set(received_ids(nginx, path))) == 300


@pytest.mark.only_on("postgresql")
def test_a_stopping_worker_finishes_the_requests_in_flight(alice, redis_url, start_worker):
    with SlowReceiver(delay_seconds=3).running() as receiver:
        make_webhook(alice, url=receiver.url)
        worker = start_worker(redis_url)
        for _ in range(5):
            emit_one(alice)
        wait_until(lambda: len(receiver.hits) == 5)

        worker.send_signal(signal.SIGTERM)
        worker.wait(30)

    assert worker.returncode == 0
    assert [delivery.state for delivery in Delivery.objects.all()] == ["succeeded"] * 5
    assert len(receiver.hits) == 5


@pytest.mark.only_on("postgresql")
def test_a_single_threaded_worker_finishes_the_requests_in_flight(alice, redis_url, start_worker):
    with SlowReceiver(delay_seconds=3).running() as receiver:
        make_webhook(alice, url=receiver.url)
        worker = start_worker(redis_url, "--pool", "solo")
        emit_one(alice)
        wait_until(lambda: len(receiver.hits) == 1)

        worker.send_signal(signal.SIGTERM)
        worker.wait(30)

    assert [delivery.state for delivery in Delivery.objects.all()] == ["succeeded"]
    assert len(receiver.hits) == 1


@pytest.mark.only_on("postgresql")
def test_a_refusing_broker_neither_fails_nor_delays_the_caller(alice, redis_url, start_worker, nginx, tmp_path):
    path = f"/refused-{time.time_ns()}"
    make_webhook(alice, url=nginx.url + path)

    seconds = emit_elsewhere("redis://127.0.0.1:9/0", tmp_path, 20)

    assert seconds < 5
    start_worker(redis_url)
    wait_until(all_final)
    assert len(received_ids(nginx, path)) == 20


@pytest.mark.only_on("postgresql")
def test_a_worker_finds_unannounced_deliveries_without_beat(alice, redis_url, start_worker, nginx, tmp_path):
    path = f"/no-beat-{time.time_ns()}"
    make_webhook(alice, url=nginx.url + path)
    start_worker(redis_url)

    emit_elsewhere("redis://127.0.0.1:9/0", tmp_path, 5)

    wait_until(all_final)
    assert len(received_ids(nginx, path)) == 5


@pytest.mark.only_on("postgresql")
def test_retries_are_sent_by_the_worker_that_scheduled_them(alice, redis_url, start_worker):
    webhook = make_webhook(alice, url=f"http://127.0.0.1:{free_port()}/nobody", retry_notices=False)
    start_worker(redis_url)
    emit_one(alice)

    wait_until(lambda: DeliveryAttempt.objects.count() == 3)

    first, second, third = DeliveryAttempt.objects.order_by("number")
    assert {attempt.result for attempt in (first, second, third)} == {"connection_error"}
    assert 1 <= (second.started_at - first.started_at).total_seconds() < 3
    assert 5 <= (third.started_at - second.started_at).total_seconds() < 7
    webhook.disable("Over.")


@pytest.mark.only_on("postgresql")
def test_two_workers_and_two_beats_send_each_event_once(alice, redis_url, start_worker, start_beat, nginx, tmp_path):
    path = f"/pairs-{time.time_ns()}"
    make_webhook(alice, url=nginx.url + path)
    for start in (start_worker, start_worker, start_beat, start_beat):
        start(redis_url)

    emit_elsewhere(redis_url, tmp_path, 300)

    wait_until(all_final)
    assert len(received_ids(nginx, path)) == len(set(received_ids(nginx, path))) == 300


def test_several_workers_do_not_exceed_the_limit_of_a_webhook(alice, redis_url, start_worker, tmp_path):
    with SlowReceiver(delay_seconds=0.3).running() as receiver:
        make_webhook(alice, url=receiver.url, max_in_flight=16)
        start_worker(redis_url)
        start_worker(redis_url)
        for _ in range(180):
            emit_one(alice)
        emit_elsewhere(redis_url, tmp_path, 20)

        wait_until(all_final)

    assert len(receiver.hits) == 200
    assert 8 < receiver.most_at_a_time <= 16
