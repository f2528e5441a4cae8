"""The API for organizations, with API keys and with the project's own authentication."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tests.api.conftest import client_of
from tests.support.rows import EVENT_TYPE, URL, emit_one, make_webhook
from webhooks_app.api.authentication import ApiKeyAuthentication
from webhooks_app.models import ApiKey, AuditEntry, Replay, Webhook
from webhooks_app.operations.actors import StaffMember
from webhooks_app.operations.api_keys import create_key

pytestmark = pytest.mark.django_db


@pytest.fixture
def sessions(settings: Any) -> None:
    settings.WEBHOOKS_API_AUTHENTICATION = ["rest_framework.authentication.SessionAuthentication"]


def test_a_key_registers_webhooks_of_its_organization(acme: Any, globex: Any) -> None:
    answer = client_of(acme).call("POST", "/v1/webhooks", {"url": URL, "events": [EVENT_TYPE]})

    webhook = Webhook.objects.get(pk=answer.json()["id"])
    assert (answer.status_code, webhook.owner) == (201, acme)


def test_another_organizations_rows_are_not_found(acme: Any, globex: Any) -> None:
    webhook, event = make_webhook(globex), emit_one(globex)
    api = client_of(acme)

    assert api.call("GET", "/v1/webhooks").json()["results"] == []
    assert api.call("GET", f"/v1/webhooks/{webhook.pk}").status_code == 404
    assert api.call("GET", f"/v1/events/{event.pk}").status_code == 404


def test_the_user_of_a_request_with_a_key_is_its_principal(acme: Any, rf: Any) -> None:
    api_key, text = ApiKey.objects.make(owner=acme)

    user, auth = ApiKeyAuthentication().authenticate(rf.get("/", headers={"authorization": f"Bearer {text}"}))

    assert (user.owner, user.api_key, auth) == (acme, api_key, api_key)
    assert (user.is_authenticated, user.is_staff, user.has_perm("webhooks_app.add_webhook")) == (True, False, False)
    assert user.get_username() == f"whk_{api_key.prefix}"


def test_a_key_of_an_inactive_organization_is_refused(acme: Any) -> None:
    api = client_of(acme)
    acme.is_active = False
    acme.save()

    assert api.call("GET", "/v1/webhooks").status_code == 401


def test_operations_of_a_key_are_attributed_to_its_creator(acme: Any, amina: Any) -> None:
    webhook = make_webhook(acme)
    amina.is_superuser = True
    _, text = create_key(owner=acme, actor=StaffMember(account=amina))
    api = client_of(acme)
    api.key = text

    api.call("POST", "/v1/replays", {"webhook_id": webhook.pk})
    api.call("POST", f"/v1/webhooks/{webhook.pk}/pause")

    entry = AuditEntry.objects.get(action="webhook.paused")
    assert (entry.actor, entry.owner, Replay.objects.get().requested_by) == (amina, acme, amina)
    shown = api.call("GET", f"/v1/webhooks/{webhook.pk}/audit").json()["results"][0]
    assert shown["by"].startswith("whk_")


def test_a_member_who_is_logged_in_acts_for_the_organization(acme: Any, amina: Any, sessions: None) -> None:
    webhook = make_webhook(acme)
    client = Client()
    client.force_login(amina)

    assert [each["id"] for each in client.get("/v1/webhooks").json()["results"]] == [webhook.pk]


def test_a_change_by_a_session_needs_a_csrf_token(acme: Any, amina: Any, sessions: None) -> None:
    webhook = make_webhook(acme)
    client = Client(enforce_csrf_checks=True)
    client.force_login(amina)
    client.cookies["csrftoken"] = token = "a" * 32

    body: Any = {"content_type": "application/json"}
    without = client.post(f"/v1/webhooks/{webhook.pk}/pause", **body)
    paused_before = Webhook.objects.get().paused_at
    answer = client.post(f"/v1/webhooks/{webhook.pk}/pause", headers={"x-csrftoken": token}, **body)

    assert (without.status_code, paused_before) == (403, None)
    assert answer.status_code == 200
    assert Webhook.objects.get().paused_at


def test_a_session_is_no_key_unless_the_host_accepts_it(acme: Any, amina: Any) -> None:
    make_webhook(acme)
    client = Client()
    client.force_login(amina)

    answer = client.get("/v1/webhooks")

    assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")


def test_a_user_without_a_single_organization_is_refused(acme: Any, globex: Any, amina: Any, sessions: None) -> None:
    globex.members.add(amina)
    client = Client()
    client.force_login(amina)

    answer = client.get("/v1/webhooks")

    assert answer.status_code == 403
    assert "or more than one" in answer.json()["detail"]
