"""Filters in the database: what was saved is what is read and evaluated, on each database."""

from __future__ import annotations

import json

import pytest
from django.db import connection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from webhooks_app.conf import parse_filter
from webhooks_app.models import AuditEntry, Webhook
from webhooks_app.operations.actors import PROJECT
from webhooks_app.operations.registration import update_webhook

from ..support.rows import make_webhook

pytestmark = pytest.mark.django_db

NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**1023) + 1, 2**1023 - 1)
OPERATORS = st.sampled_from(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"])
FILTERS = st.dictionaries(
    st.sampled_from(["zulu", "alpha", "mike"]), st.dictionaries(OPERATORS, NUMBERS, min_size=1), min_size=1
)


@pytest.fixture
def webhook(alice):
    return make_webhook(alice)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(source=FILTERS, numbers=st.lists(NUMBERS, max_size=3))
def test_a_filter_with_any_numbers_is_read_and_evaluated_as_it_was_saved(webhook, source, numbers):
    Webhook.objects.filter(pk=webhook.pk).update(filter=source)

    read = Webhook.objects.get(pk=webhook.pk).filter

    operands = [number for condition in source.values() for number in condition.values()]
    assert json.dumps(read) == json.dumps(source)
    for number in [*numbers, *operands]:
        data = dict.fromkeys(["zulu", "alpha", "mike"], number)
        assert parse_filter(read).holds(data) is parse_filter(source).holds(data)


@pytest.mark.parametrize("number", ["1e23", "1e308", "-0.0", "5e-324", "0.1", str(2**1000)])
def test_the_api_returns_the_number_that_was_set(client, alice, api_key, number):
    webhook = make_webhook(alice)
    body = f'{{"filter": {{"error": {{"$not": {{"$lt": {number}}}}}}}}}'
    headers = {"Authorization": f"Bearer {api_key}"}

    set_to = client.patch(f"/v1/webhooks/{webhook.pk}", body, "application/json", headers=headers)
    read = client.get(f"/v1/webhooks/{webhook.pk}", headers=headers)

    assert set_to.status_code == 200
    assert json.dumps(read.json()["filter"]) == json.dumps(json.loads(body)["filter"])


def test_the_console_shows_the_number_that_was_set(admin_client, alice):
    webhook = make_webhook(alice, filter={"error": {"$not": {"$lt": 1e23}}})

    page = admin_client.get(f"/admin/webhooks_app/webhook/{webhook.pk}/change/?section=settings")

    assert "1e+23" in page.text


def test_the_history_has_the_number_that_was_set(alice):
    webhook = make_webhook(alice, filter={"error": {"$not": {"$lt": 1e23}}})
    update_webhook(webhook, actor=PROJECT, filter={"error": {"$not": {"$lt": 1e308}}})

    changes = AuditEntry.objects.about(webhook).first().changes["filter"]

    assert json.dumps(changes) == json.dumps([{"error": {"$not": {"$lt": 1e23}}}, {"error": {"$not": {"$lt": 1e308}}}])


@pytest.mark.parametrize("text", ['{"error":', "[" * 100_000, "1" * 5000], ids=["cut off", "deep", "many digits"])
def test_a_webhook_with_a_broken_filter_can_be_read(alice, text):
    webhook = make_webhook(alice)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE webhooks_app_webhook SET filter = %s", [text])

    assert Webhook.objects.get(pk=webhook.pk).filter == text
