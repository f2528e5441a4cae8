"""The audit log of a webhook for its owner: ``GET /v1/webhooks/{id}/audit``."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from django.contrib.auth import get_user_model
from django.core.cache import cache
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.api.conftest import client_of
from tests.support.rows import make_webhook
from webhooks_app.api.serializers import AuditEntrySerializer
from webhooks_app.models import ApiKey, AuditEntry
from webhooks_app.models.audit import Actor, Via, acting
from webhooks_app.operations.actors import PROJECT, ApiCaller
from webhooks_app.operations.registration import update_webhook
from webhooks_app.protocol.json_data import format_time

pytestmark = pytest.mark.django_db


@pytest.fixture
def api(alice):
    cache.clear()
    return client_of(alice)


def records(api, webhook, query=""):
    answer = api.call("GET", f"/v1/webhooks/{webhook.pk}/audit{query}")
    assert answer.status_code == 200, answer.content
    return answer.json()["results"]


def test_an_entry_has_the_action_and_the_key(api, webhook):
    api.call("PATCH", f"/v1/webhooks/{webhook.pk}", {"events": ["file.deleted"]})

    (record,) = records(api, webhook)
    entry = AuditEntry.objects.about(webhook).get()
    assert record == {
        "id": entry.pk,
        "action": "webhook.changed",
        "via": "api",
        "by": f"whk_{ApiKey.objects.get().prefix}",
        "changes": {"events": [["ppt.generation.failed"], ["file.deleted"]]},
        "reason": "",
        "reason_code": "",
        "created": format_time(entry.created_at),
    }


def test_names_of_staff_and_machines_are_hidden(api, webhook):
    with acting(Actor(via=Via.CONSOLE, account=get_user_model().objects.create_user("berta"))):
        webhook.pause()
    with acting(Actor(via=Via.COMMAND, name="deploy")):
        webhook.resume()

    assert [(record["via"], record["by"]) for record in records(api, webhook)] == [("command", ""), ("console", "")]


@pytest.mark.parametrize(
    ("caller", "shown"),
    [
        pytest.param({"owner": "alice", "scopes": ()}, "", id="key-created-by-staff"),
        pytest.param({"owner": "berta", "scopes": ()}, "berta", id="key-of-the-account"),
        pytest.param({"owner": "alice"}, "berta", id="host-authentication"),
    ],
)
def test_the_creator_of_a_key_remains_anonymous(alice, webhook, caller, shown):
    berta = get_user_model().objects.create_user("berta")
    with acting(Actor(via=Via.CONSOLE, account=berta)):
        webhook.pause()

    owner = {"alice": alice, "berta": berta}[caller["owner"]]
    view = SimpleNamespace(actor=ApiCaller(account=berta, **{**caller, "owner": owner}))

    assert AuditEntrySerializer(AuditEntry.objects.get(), context={"view": view}).data["by"] == shown


def test_pages_link_to_the_next_one(api, webhook):
    for _ in range(2):
        webhook.pause()
        webhook.resume()

    first = api.call("GET", f"/v1/webhooks/{webhook.pk}/audit?limit=3").json()
    second = api.call("GET", first["next"]).json()

    actions = [record["action"] for page in (first, second) for record in page["results"]]
    assert actions == ["webhook.resumed", "webhook.paused"] * 2
    assert second["next"] is None


@pytest.mark.parametrize(
    ("query", "count"), [("?action=webhook.paused", 1), ("?via=code", 2), ("?via=api", 0)], ids=lambda value: value
)
def test_the_log_can_be_filtered(api, webhook, query, count):
    webhook.pause()
    webhook.resume()

    assert len(records(api, webhook, query)) == count


def test_the_log_contains_only_entries_of_the_webhook(api, alice, webhook):
    make_webhook(alice).pause()

    assert records(api, webhook) == []


def test_the_log_requires_the_scope_for_reading_webhooks(alice, webhook):
    api = client_of(alice, scopes=["events:read"])

    assert api.call("GET", f"/v1/webhooks/{webhook.pk}/audit").status_code == 403


def test_the_number_of_queries_is_constant(api, webhook):
    records(api, webhook)  # the first request with a key records its use
    counts = []
    for more in (1, 30):
        for number in range(more):
            update_webhook(webhook, description=f"{more} {number}", actor=PROJECT)
        with CaptureQueriesContext(connection) as queries:
            assert len(records(api, webhook)) >= more
        counts.append(len(queries))

    assert counts[0] == counts[1] <= 5
