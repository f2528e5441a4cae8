"""The servers for other tests."""

from __future__ import annotations

import pytest
import requests

from tests.support.servers.nginx import NginxReceiver
from tests.support.waiting import wait_until


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
