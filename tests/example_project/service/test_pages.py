"""Pages of the service and the login of its console."""

from __future__ import annotations

import re
import stat

import pytest
from django.contrib.auth import get_user_model

from example_project.console_login import ensure_login
from webhooks_app.event_types.builtin import PRESENTATION_EVENT_TYPES

ROWS = ("presentations/presentation", "files/file", "accounts/subscription")


def test_every_link_of_the_front_page_works(client):
    page = client.get("/").content.decode()
    links = re.findall('href="([^"]+)"', page.partition("<main")[2])

    assert links == ["/webhooks/", "/admin/", "/v1/docs", "/readme"]
    assert [client.get(link, follow=True).status_code for link in links] == [200, 200, 200, 200]


def test_urls_of_the_service_and_of_webhooks_coexist(amina):
    assert amina.get("/v1/webhooks").status_code == 200
    assert amina.get("/v1/subscription/").status_code == 404
    assert amina.get("/v1/nothing").json()["status"] == 404


def test_the_metrics_need_permission(client, tmp_path):
    password, _ = ensure_login(tmp_path)

    assert client.get("/metrics").status_code == 401
    client.login(username="admin", password=password)
    assert "webhooks_workers 0.0" in client.get("/metrics").content.decode()


def test_every_event_type_has_a_signal():
    from example_project import webhook_events

    source = webhook_events.__loader__.get_source(webhook_events.__name__)

    bound = re.findall(r'@emit_on\([\w.]+, "([a-z.]+)"', source)
    assert sorted(bound) == sorted(event_type.name for event_type in PRESENTATION_EVENT_TYPES)


@pytest.mark.parametrize("path", ROWS)
def test_the_console_shows_the_services_rows_read_only(client, tmp_path, path):
    password, _ = ensure_login(tmp_path)
    client.login(username="admin", password=password)

    assert client.get(f"/admin/{path}/").status_code == 200
    assert client.get(f"/admin/{path}/add/").status_code == 403


def test_the_password_file_is_private_and_reused(tmp_path):
    first, path = ensure_login(tmp_path)
    second, _ = ensure_login(tmp_path)

    assert first == second == path.read_text().strip()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_given_password_is_not_stored(tmp_path):
    ensure_login(tmp_path)
    password, path = ensure_login(tmp_path, "given by hand")

    assert (password, path) == ("given by hand", None)
    assert get_user_model().objects.get(username="admin").check_password("given by hand")
