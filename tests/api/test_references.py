"""Finding events and deliveries by reference."""

from __future__ import annotations

import pytest

from webhooks_app import emit

from ..support.rows import EVENT_TYPE, make_webhook

pytestmark = pytest.mark.django_db


@pytest.fixture
def event(alice):
    make_webhook(alice)
    emit(EVENT_TYPE, {"error": "Other"}, owner=alice, references=["ppt_2"])
    return emit(EVENT_TYPE, {"error": "No outline"}, owner=alice, references=["ppt_1", "user_1"])


@pytest.mark.parametrize("reference", ["ppt_1", "user_1"])
def test_events_are_found_by_a_reference(api, event, reference):
    found = api.call("GET", f"/v1/events?reference={reference}").json()["results"]

    assert [record["id"] for record in found] == [event.pk]


def test_deliveries_are_found_by_a_reference_of_their_event(api, event):
    found = api.call("GET", "/v1/deliveries?reference=ppt_1").json()["results"]

    assert [record["event_id"] for record in found] == [event.pk]


def test_an_event_shows_its_references(api, event):
    assert api.call("GET", f"/v1/events/{event.pk}").json()["references"] == ["ppt_1", "user_1"]


def test_another_accounts_events_are_not_found(bobs_api, event):
    assert bobs_api.call("GET", "/v1/events?reference=ppt_1").json()["results"] == []
