"""A policy that hides event types from owners."""

from __future__ import annotations

import pytest

from webhooks_app.owners import UserOwners

pytestmark = pytest.mark.django_db


class BetaOwners(UserOwners):
    """Only alice sees the event types of presentations."""

    def sees(self, owner, event_type):
        return not event_type.name.startswith("ppt.") or (owner is not None and owner.get_username() == "alice")


@pytest.fixture(autouse=True)
def _policy(settings):
    settings.WEBHOOKS_OWNERS = f"{__name__}.BetaOwners"


def register(api):
    return api.call("POST", "/v1/webhooks", {"url": "http://127.0.0.1:9000/", "events": ["ppt.edit.started"]})


def test_an_event_type_is_listed_for_owners_who_see_it(api, bobs_api):
    lists = [client.call("GET", "/v1/event-types").content for client in (api, bobs_api)]

    assert [b"ppt.edit.started" in each for each in lists] == [True, False]
    assert bobs_api.call("GET", "/v1/event-types/ppt.edit.started").status_code == 404


def test_an_owner_cannot_subscribe_to_a_hidden_event_type(api, bobs_api):
    refused = register(bobs_api)

    assert register(api).status_code == 201
    assert refused.status_code == 400
    assert "Unknown event type" in str(refused.json()["errors"])
    assert "ppt.generation" not in str(refused.json()["errors"])


def test_the_public_documentation_contains_only_public_event_types(client):
    names = client.get("/v1/openapi.json").json()["webhooks"]

    assert "file.deleted" in names
    assert not any(name.startswith("ppt.") for name in names)


def test_a_webhook_with_a_hidden_event_type_can_be_changed(api, bobs_api, settings):
    settings.WEBHOOKS_OWNERS = "webhooks_app.owners.UserOwners"
    webhook = register(bobs_api).json()
    settings.WEBHOOKS_OWNERS = f"{__name__}.BetaOwners"
    path = f"/v1/webhooks/{webhook['id']}"

    described = bobs_api.call("PATCH", path, {"description": "changed"})
    kept = bobs_api.call("PATCH", path, {"events": ["file.deleted", "ppt.edit.started"]})
    refused = bobs_api.call("PATCH", path, {"events": ["ppt.edit.started", "ppt.edit.failed"]})

    assert [answer.status_code for answer in (described, kept, refused)] == [200, 200, 400]
    assert kept.json()["events"] == ["file.deleted", "ppt.edit.started"]
    assert "Unknown event type 'ppt.edit.failed'" in refused.content.decode()
