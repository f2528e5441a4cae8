"""References of events and deliveries in the console."""

from __future__ import annotations

import pytest

from webhooks_app import emit

from ..support.rows import EVENT_TYPE, make_webhook
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


def test_an_event_shows_its_references_and_its_idempotency_key(superuser: Page, event):
    page = text(superuser.get("event", "change", event.pk))

    assert "ppt_1" in page
    assert "order-1" in page
