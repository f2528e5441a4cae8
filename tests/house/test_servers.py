"""The servers for other tests."""

from __future__ import annotations

import amqp
import pytest
import requests
from redis import Redis

from tests.support.servers.nginx import NginxReceiver
from tests.support.waiting import wait_until


def test_redis_answers(redis_url: str) -> None:
    with Redis.from_url(redis_url) as client:
        assert client.ping()


@pytest.mark.only_on("postgresql")
@pytest.mark.xdist_group("rabbitmq")
def test_rabbitmq_transports_a_message(rabbitmq_url: str) -> None:
    host = rabbitmq_url.rpartition("@")[2].rstrip("/")

    with amqp.Connection(host) as connection:
        channel = connection.channel()
        queue = channel.queue_declare(exclusive=True).queue
        channel.basic_publish(amqp.Message("wake"), routing_key=queue)
        message = channel.basic_get(queue, no_ack=True)

    assert message.body == "wake"


def test_nginx_logs_its_requests(nginx: NginxReceiver) -> None:
    answer = requests.post(f"{nginx.url}/house", data='{"title": "Ünïcode \\" "}'.encode(), timeout=5)

    assert answer.status_code == 200
    wait_until(lambda: bool(nginx.received("/house")))  # logged after the response
    assert [request.body for request in nginx.received("/house")] == ['{"title": "Ünïcode \\" "}']


@pytest.mark.django_db
def test_the_tests_use_the_selected_database(pytestconfig: pytest.Config) -> None:
    from django.db import connection

    vendors = {"mariadb": "mysql"}
    database = pytestconfig.getoption("database")
    assert connection.vendor == vendors.get(database, database)
