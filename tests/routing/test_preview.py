"""The preview of a filter on past events."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db import connection
from django.test.utils import CaptureQueriesContext

from webhooks_app.emission import emit
from webhooks_app.exceptions import FilterBudgetError
from webhooks_app.models import Event, Webhook
from webhooks_app.routing import preview
from webhooks_app.routing.preview import preview_filter

from ..support.rows import EVENT_TYPE, emit_one, make_webhook

pytestmark = pytest.mark.django_db
ONE = {"error": "one"}


@pytest.fixture
def owner() -> Any:
    return get_user_model().objects.create_user("amina")


@pytest.fixture
def webhook(owner: Any) -> Webhook:
    return make_webhook(owner, EVENT_TYPE)


def test_the_last_events_are_counted_with_the_newest_example_of_each(owner: Any, webhook: Webhook) -> None:
    emit_one(owner, "one")
    time.sleep(0.001)  # the identifiers of a millisecond have no order
    second = emit_one(owner, "one")
    time.sleep(0.001)
    third = emit_one(owner, "other")

    found = preview_filter(webhook, ONE)

    assert (found.evaluated, found.matched, found.match, found.other) == (3, 2, second, third)
    assert '"other"' in str(found.mismatch)


def test_without_a_filter_every_event_matches(owner: Any, webhook: Webhook) -> None:
    event = emit_one(owner)

    found = preview_filter(webhook, None)

    assert (found.evaluated, found.matched, found.match, found.other) == (1, 1, event, None)


def test_only_events_that_the_webhook_may_get_count(owner: Any, webhook: Webhook) -> None:
    emit_one(get_user_model().objects.create_user("berta"), "one")
    emit("file.deleted", {"file_id": "file_1", "user_id": "user_1", "filename": "n"}, owner=owner)
    without_body = emit_one(owner, "one")
    Event.objects.filter(pk=without_body.pk).update(body="")
    Event.objects.filter(pk=emit_one(owner, "one").pk).update(is_test=True)

    assert preview_filter(webhook, ONE).evaluated == 0


def test_a_new_webhook_need_not_be_saved(owner: Any) -> None:
    emit_one(owner, "one")

    found = preview_filter(Webhook(owner=owner, url="https://a.example/", event_types=[EVENT_TYPE]), ONE)

    assert (found.evaluated, found.matched) == (1, 1)


def test_the_number_of_events_is_limited(owner: Any, webhook: Webhook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preview, "MAX_PREVIEWED", 2)
    for _ in range(3):
        emit_one(owner, "one")

    with CaptureQueriesContext(connection) as queries:
        found = preview_filter(webhook, ONE)

    assert found.evaluated == 2
    assert len(queries) == 2


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ({"$or": [{"error": "a"}, {"$not": {"titel": "b"}}]}, "$or[1].$not.titel"),
        ({"error": {"$greater": 1}}, "error.$greater"),
    ],
)
def test_an_error_names_its_path(webhook: Webhook, source: Any, path: str) -> None:
    with pytest.raises(ValidationError) as raised:
        preview_filter(webhook, source)

    assert raised.value.message_dict["filter"][0].startswith(f"{path}")
    assert Webhook.objects.get().filter is None


def test_a_filter_with_too_many_steps_is_refused(owner: Any, webhook: Webhook, monkeypatch: pytest.MonkeyPatch) -> None:
    event = emit_one(owner, "one")
    monkeypatch.setattr("webhooks_app.filters.matching.Filter.mismatch", _too_many)

    with pytest.raises(ValidationError) as raised:
        preview_filter(webhook, ONE)

    assert event.pk in raised.value.message_dict["filter"][0]


def _too_many(*args: Any) -> None:
    raise FilterBudgetError
