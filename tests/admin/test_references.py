"""References of events and deliveries in the console."""

from __future__ import annotations

import pytest

from webhooks_app import emit

from ..support.rows import EVENT_TYPE, make_webhook
from ..support.waiting import wait_for_next_millisecond
from .conftest import Page, text

pytestmark = pytest.mark.django_db


@pytest.fixture
def event(owner):
    make_webhook(owner)
    emit(EVENT_TYPE, {"error": "Other"}, owner=owner, references=["ppt_2"])
    return emit(EVENT_TYPE, {"error": "a"}, owner=owner, references=["ppt_1"], idempotency_key="order-1")


def listed(page):
    return [row.pk for row in page.context["cl"].result_list]


@pytest.mark.parametrize("query", [{"reference": "ppt_1"}, {"q": "ppt_1"}], ids=["filter", "search"])
def test_events_are_found_by_a_reference(superuser: Page, event, query):
    assert listed(superuser.get("event", **query)) == [event.pk]


def test_deliveries_are_found_by_a_reference_of_their_event(superuser: Page, event):
    assert listed(superuser.get("delivery", reference="ppt_1")) == [event.deliveries.get().pk]


def test_the_specifications_ids_are_found_without_further_arguments(superuser: Page, owner):
    make_webhook(owner, "ppt.generation.started", "file.deleted")
    made = emit("ppt.generation.started", {"ppt_id": "ppt_8f14e45f", "user_id": "user_1", "title": "A"}, owner=owner)
    emit("file.deleted", {"file_id": "file_1", "user_id": "user_2", "filename": "a.pdf"}, owner=owner)

    for term in ("ppt_8f14e45f", "user_1"):
        assert listed(superuser.get("event", q=term)) == [made.pk]
        assert listed(superuser.get("delivery", q=term)) == [made.deliveries.get().pk]


def test_a_search_by_reference_examines_the_newest_events_only(superuser: Page, owner, monkeypatch):
    make_webhook(owner)
    monkeypatch.setattr("webhooks_app.models.event.MAX_FOUND", 2)
    events = [emit(EVENT_TYPE, {"error": "a"}, owner=owner, references=["order_4711"]) for _ in range(3)]

    newest = sorted(events, key=lambda event: event.pk)[1:]
    assert {row.event_id for row in superuser.get("delivery", q="order_4711").context["cl"].result_list} == {
        event.pk for event in newest
    }


def test_a_search_by_reference_shows_no_others_deliveries(staff, event, django_user_model):
    other = staff("boris", "view_delivery", "view_event")

    assert listed(other.get("delivery", q="ppt_1")) == []


@pytest.mark.parametrize("query", [{"reference": "ppt_1"}, {"q": "ppt_1"}], ids=["filter", "search"])
def test_newer_events_of_others_hide_no_own_ones(staff, owner, monkeypatch, query):
    monkeypatch.setattr("webhooks_app.models.event.MAX_FOUND", 1)
    page = staff("boris", "view_delivery", "view_event")
    make_webhook(page.user)
    own = emit(EVENT_TYPE, {"error": "a"}, owner=page.user, references=["ppt_1"])
    wait_for_next_millisecond()
    emit(EVENT_TYPE, {"error": "a"}, owner=owner, references=["ppt_1"])

    assert listed(page.get("delivery", **query)) == [own.deliveries.get().pk]


def test_an_event_shows_its_references_and_its_idempotency_key(superuser: Page, event):
    page = text(superuser.get("event", "change", event.pk))

    assert "ppt_1" in page
    assert "order-1" in page
