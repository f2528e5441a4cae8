"""The catalogue over the API."""

from __future__ import annotations

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel

from webhooks_app.event_types import EventType, registry

pytestmark = [pytest.mark.django_db, pytest.mark.only_on("sqlite")]


class Shipped(BaseModel):
    order: int


def test_the_types_that_an_account_can_subscribe_to_are_listed(api):
    answer = api.call("GET", "/v1/event-types").json()

    assert [record["name"] for record in answer["results"]] == list(registry.emittable_names())
    assert (answer["next"], answer["previous"]) == (None, None)


@pytest.mark.parametrize("name", registry.emittable_names())
def test_the_example_fits_the_schema(api, name):
    record = api.call("GET", f"/v1/event-types/{name}").json()

    Draft202012Validator.check_schema(record["schema"])
    Draft202012Validator(record["schema"]).validate(record["example"])
    assert record["name"] == name
    assert record["description"]


def test_a_hosts_own_type_can_be_listed_and_subscribed_to(api):
    shipped = EventType(name="shop.shipped", description="Sent", data_model=Shipped, example={"order": 7})

    with registry.temporarily(shipped):
        record = api.call("GET", "/v1/event-types/shop.shipped").json()
        created = api.call("POST", "/v1/webhooks", {"url": "http://127.0.0.1:9000/", "events": ["shop.shipped"]})

    assert record["example"] == {"order": 7}
    assert created.status_code == 201


@pytest.mark.parametrize("name", ["webhook.retry", "webhook.verification", "webhook.failing", "nothing", "%00", "☃"])
def test_an_internal_or_unknown_type_is_not_found(api, name):
    assert api.call("GET", f"/v1/event-types/{name}").status_code == 404
