"""The end of an operation or a field is announced in answers and in the OpenAPI document."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from openapi_spec_validator import OpenAPIV31SpecValidator

from webhooks_app.api import openapi
from webhooks_app.api.deprecations import DEPRECATED, Deprecation

from ..support.rows import EVENT_TYPE, make_webhook

pytestmark = pytest.mark.django_db

PAGE = (Path(__file__).parents[2] / "docs" / "api.md").read_text()
ENDS = Deprecation(since=datetime(2026, 7, 1, tzinfo=UTC), ends_at=datetime(2027, 1, 1, 12, tzinfo=UTC))
HEADERS = {"Deprecation": "@1782864000", "Sunset": "Fri, 01 Jan 2027 12:00:00 GMT"}


@pytest.fixture(autouse=True)
def toys(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("webhooks_pause", "events_create", "Webhook.description"):
        monkeypatch.setitem(DEPRECATED, name, ENDS)
    openapi._document.cache_clear()
    yield
    openapi._document.cache_clear()


def announced(answer: Any) -> dict[str, str]:
    return {name: answer.headers[name] for name in ("Deprecation", "Sunset") if name in answer.headers}


def test_answers_of_an_operation_that_will_end_say_when(api: Any, alice: Any) -> None:
    webhook = make_webhook(alice)

    assert announced(api.call("POST", f"/v1/webhooks/{webhook.pk}/pause")) == HEADERS
    assert announced(api.call("POST", f"/v1/webhooks/{webhook.pk}/resume")) == {}


def test_accepted_events_say_it_too(service: Any) -> None:
    answer = service.call("POST", "/v1/events", {"type": EVENT_TYPE, "owner": None, "data": {"error": "No outline"}})

    assert (answer.status_code, announced(answer)) == (202, HEADERS)


def test_refusals_say_it_too(api: Any) -> None:
    answers = [
        Client().post("/v1/webhooks/wh_1/pause"),
        api.call("POST", "/v1/webhooks/wh_1/pause"),
        api.call("POST", "/v1/events", {"type": EVENT_TYPE}),
    ]

    assert [answer.status_code for answer in answers] == [401, 404, 403]
    assert [announced(answer) for answer in answers] == [HEADERS] * 3


def test_the_document_marks_operations_and_fields_that_will_end() -> None:
    document = Client().get("/v1/openapi.json").json()
    operations = {
        operation["operationId"]: operation.get("deprecated", False)
        for item in document["paths"].values()
        for operation in item.values()
    }
    fields = document["components"]["schemas"]["Webhook"]["properties"]

    OpenAPIV31SpecValidator(document).validate()
    assert {name for name, is_deprecated in operations.items() if is_deprecated} == {"webhooks_pause", "events_create"}
    assert {name for name, field in fields.items() if field.get("deprecated")} == {"description"}


def test_clients_have_half_a_year() -> None:
    with pytest.raises(ValueError, match="must stay for 182 days"):
        Deprecation(since=datetime(2026, 7, 1, tzinfo=UTC), ends_at=datetime(2026, 12, 29, tzinfo=UTC))


def test_the_page_says_whether_something_is_deprecated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()

    assert bool(re.search("No address and no field is deprecated today", PAGE)) is (not DEPRECATED)
