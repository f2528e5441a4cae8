"""The choice of mails over the API."""

from __future__ import annotations

from typing import Any

import pytest

from webhooks_app.models import MailPreference

from .conftest import client_of

pytestmark = pytest.mark.django_db

URL = "/v1/webhooks/mails"


def test_an_owner_reads_and_chooses_the_mails(api: Any, alice: Any) -> None:
    assert api.call("GET", URL).json() == {"mails": "at_once"}

    response = api.call("PATCH", URL, {"mails": "daily"})

    assert (response.status_code, response.json()) == (200, {"mails": "daily"})
    assert api.call("GET", URL).json() == {"mails": "daily"}
    assert MailPreference.objects.get().owner == alice


@pytest.mark.parametrize(
    ("body", "field"), [({"mails": "hourly"}, "mails"), ({}, "mails"), ({"mails": "none", "at": 1}, "at")], ids=str
)
def test_an_invalid_choice_is_refused(api: Any, body: Any, field: str) -> None:
    response = api.call("PATCH", URL, body)

    assert response.status_code == 400
    assert field in str(response.json())
    assert not MailPreference.objects.exists()


def test_a_key_that_may_only_read_cannot_choose(alice: Any) -> None:
    reader = client_of(alice, scopes=["webhooks:read"])

    assert reader.call("GET", URL).status_code == 200
    assert reader.call("PATCH", URL, {"mails": "none"}).status_code == 403
