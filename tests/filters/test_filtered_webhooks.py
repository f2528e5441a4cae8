"""Filters during emission, and their explanation in the decision table."""

from __future__ import annotations

import json
import time

import pytest
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError
from django.db import connection

from webhooks_app import emit, register_webhook, send_test_event
from webhooks_app.filters import FILTER_OPERATORS, BaseOperator
from webhooks_app.models import ApiKey, AuditEntry, Delivery, Webhook
from webhooks_app.operations.actors import PROJECT
from webhooks_app.operations.registration import update_webhook
from webhooks_app.routing.report import decide

from ..management.conftest import run_command as run
from ..support.rows import make_webhook
from ..support.statements import statements_of

pytestmark = pytest.mark.django_db

FAILED = "ppt.generation.failed"


class Palindrome(BaseOperator):
    """A project's own operator."""

    name = "$palindrome"

    def problem(self, operand):
        return "" if operand is True else "must be true"

    def holds(self, value, operand):
        return isinstance(value, str) and value == value[::-1]

    def wanted(self, operand):
        return "a palindrome"


def emit_error(owner, error):
    """Emit an event later than the last one by a millisecond, because the identifiers of one have no order."""
    time.sleep(0.001)
    return emit(FAILED, {"error": error}, owner=owner)


def receivers_of(event):
    return set(Delivery.objects.filter(event=event).values_list("webhook_id", flat=True))


def test_only_matching_events_are_queued(alice):
    plain = make_webhook(alice)
    filtered = make_webhook(alice, filter={"error": {"$startsWith": "disk"}})

    matching, other = emit_error(alice, "disk full"), emit_error(alice, "no memory")

    assert receivers_of(matching) == {plain.pk, filtered.pk}
    assert receivers_of(other) == {plain.pk}


def test_an_event_that_matches_no_filter_is_recorded(alice):
    make_webhook(alice, filter={"error": "x"})

    event = emit_error(alice, "y")

    event.refresh_from_db()
    assert receivers_of(event) == set()


def test_emit_without_filters_takes_one_statement_on_postgresql(alice):
    make_webhook(alice)
    emit_error(alice, "warm")

    statements = statements_of(lambda: emit_error(alice, "a"))

    assert len(statements) == (1 if connection.vendor == "postgresql" else 4)


@pytest.mark.only_on("postgresql")
@pytest.mark.parametrize("status", ["pending", "active"], ids=["activated", "filter-set"])
def test_a_filter_that_appears_during_an_emission_is_evaluated(alice, status):
    matching = make_webhook(alice, filter={"error": "disk full"})
    late = make_webhook(alice, status=status)
    done = []

    def change(execute, sql, *arguments):
        rows = execute(sql, *arguments)
        if not done:
            done.append(True)
            Webhook.objects.filter(pk=late.pk).update(status="active", filter={"error": "no memory"})
        return rows

    with connection.execute_wrapper(change):
        event = emit_error(alice, "disk full")

    assert receivers_of(event) == {matching.pk}


def test_tests_are_not_filtered(alice):
    webhook = make_webhook(alice, filter={"error": "never"})

    delivery = send_test_event(webhook, FAILED, actor=PROJECT)

    assert delivery.webhook_id == webhook.pk


def decision(event, webhook):
    return next(found for found in decide(event) if found.webhook == webhook)


def test_the_decision_table_names_the_condition(alice):
    webhook = make_webhook(alice, filter={"error": {"$in": ["a", "b"]}})

    found = decision(emit_error(alice, "c"), webhook)

    assert (found.reason, found.detail) == ("filtered", 'data.error is "c", the filter requires one of ["a", "b"]')


def test_the_decision_table_uses_the_filter_of_that_time(alice):
    webhook = make_webhook(alice, filter={"error": "a"})
    event = emit_error(alice, "b")
    time.sleep(0.01)  # audit entries and events are compared to the millisecond

    update_webhook(webhook, actor=PROJECT, filter={"error": "b"})

    assert decision(event, webhook).detail == 'data.error is "b", the filter requires "a"'
    changes = AuditEntry.objects.about(webhook).first().changes
    assert changes["filter"] == [{"error": "a"}, {"error": "b"}]


def test_a_filter_is_checked_against_the_event_types(alice):
    with pytest.raises(ValidationError, match="eror: is not a field of ppt"):
        register_webhook(owner=alice, url="https://hooks.example.com/", event_types=[FAILED], filter={"eror": "x"})


NESTED = {"$or": [{"error": "a"}, {"$not": {"titel": "b"}}]}


def test_the_api_names_the_place_of_a_problem_in_a_filter(client, alice, api_key):
    body = {"url": "https://hooks.example.com/", "events": [FAILED], "filter": NESTED}

    answer = post(client, api_key, "/v1/webhooks", body)

    assert "$or[1].$not.titel: is not a field" in json.dumps(answer.json()["errors"]["filter"])


def test_the_console_names_the_place_of_a_problem_in_a_filter(admin_client, alice):
    webhook = make_webhook(alice)
    fields = {"action": "try_filter", "_selected_action": webhook.pk, "confirmed": "yes"}
    event = emit_error(alice, "x")

    page = admin_client.post(
        "/admin/webhooks_app/webhook/", {**fields, "event_id": event.pk, "filter": json.dumps(NESTED)}
    )

    assert "$or[1].$not.titel: is not a field" in page.text


def test_an_operator_that_is_not_offered_cannot_be_used_in_new_filters(alice, settings):
    webhook = make_webhook(alice, filter={"error": {"$startsWith": "a"}})
    settings.WEBHOOKS_FILTER_OPERATORS = ["$eq"]

    update_webhook(webhook, actor=PROJECT, description="unchanged filter")
    with pytest.raises(ValidationError, match=r"error\.\$startsWith: not offered. Choose from \$eq"):
        update_webhook(webhook, actor=PROJECT, filter={"error": {"$startsWith": "b"}})


def test_a_project_can_add_an_operator_by_a_setting(client, alice, api_key, settings):
    settings.WEBHOOKS_FILTER_OPERATORS = [*FILTER_OPERATORS.built_in, "tests.filters.test_filtered_webhooks.Palindrome"]
    body = {"url": "https://hooks.example.com/", "events": [FAILED], "filter": {"error": {"$palindrome": True}}}
    answer = client.post("/v1/webhooks", body, "application/json", headers={"Authorization": f"Bearer {api_key}"})
    webhook = Webhook.objects.get(pk=answer.json()["id"])
    webhook.activate()

    assert answer.json()["filter"] == body["filter"]
    assert receivers_of(emit_error(alice, "anna")) == {webhook.pk}
    assert receivers_of(emit_error(alice, "bob!")) == set()


def post(client, api_key, path, body):
    return client.post(path, body, "application/json", headers={"Authorization": f"Bearer {api_key}"})


def test_the_api_tries_a_filter_on_a_past_event(client, alice, api_key):
    webhook = make_webhook(alice)
    event = emit_error(alice, "disk full")
    path = f"/v1/webhooks/{webhook.pk}/try-filter"

    matching = post(client, api_key, path, {"event_id": event.pk})
    other = post(client, api_key, path, {"event_id": event.pk, "filter": {"error": {"$endsWith": "memory"}}})

    assert matching.json() == {"matches": True, "mismatch": ""}
    assert other.json() == {
        "matches": False,
        "mismatch": 'data.error is "disk full", the filter requires a string that ends with "memory"',
    }


def test_a_key_without_the_scope_for_webhooks_learns_no_filter(client, alice):
    webhook = make_webhook(alice, filter={"error": "a"})
    event = emit_error(alice, "b")
    _, key = ApiKey.objects.make(owner=alice, scopes=["events:read"])
    path = f"/v1/webhooks/{webhook.pk}/try-filter"

    stored = post(client, key, path, {"event_id": event.pk})
    given = post(client, key, path, {"event_id": event.pk, "filter": {"error": "b"}})
    decisions = client.get(f"/v1/events/{event.pk}/decisions", headers={"Authorization": f"Bearer {key}"})

    assert (stored.status_code, stored.json()["detail"]) == (403, "This API key lacks the scope webhooks:read.")
    assert given.json() == {"matches": True, "mismatch": ""}
    assert [(each["reason"], each["detail"]) for each in decisions.json()["results"]] == [("filtered", "")]


def test_an_unusable_filter_is_answered_with_its_path(client, alice, api_key):
    webhook = make_webhook(alice)
    event = emit_error(alice, "x")

    answer = post(
        client, api_key, f"/v1/webhooks/{webhook.pk}/try-filter", {"event_id": event.pk, "filter": {"error": {"$x": 1}}}
    )

    assert answer.status_code == 400
    assert "error.$x: isn't an operator" in json.dumps(answer.json()["errors"]["filter"])


def test_another_owners_event_is_not_found(client, alice, bob, api_key):
    webhook = make_webhook(alice)
    event = emit_error(bob, "x")

    answer = post(client, api_key, f"/v1/webhooks/{webhook.pk}/try-filter", {"event_id": event.pk})

    assert answer.status_code == 404


def test_a_command_tries_a_filter(alice):
    webhook = make_webhook(alice, filter={"error": "a"})
    event = emit_error(alice, "b")

    assert (
        run("try_webhook_filter", webhook.pk, event.pk).stdout
        == 'not sent: data.error is "b", the filter requires "a"\n'
    )
    assert run("try_webhook_filter", webhook.pk, event.pk, "--filter", '{"error": "b"}').stdout == "sent\n"
    with pytest.raises(CommandError, match="The filter is not JSON"):
        run("try_webhook_filter", webhook.pk, event.pk, "--filter", "{")


def test_the_console_tries_a_filter(admin_client, alice):
    webhook = make_webhook(alice)
    event = emit_error(alice, "b")
    fields = {"action": "try_filter", "_selected_action": webhook.pk, "confirmed": "yes", "event_id": event.pk}

    page = admin_client.post("/admin/webhooks_app/webhook/", {**fields, "filter": '{"error": "a"}'})

    assert "The event would not be sent: data.error is &quot;b&quot;, the filter requires &quot;a&quot;." in page.text


def test_the_console_previews_a_filter_on_the_last_events_and_uses_it(admin_client, alice):
    webhook = make_webhook(alice)
    events = [emit_error(alice, error) for error in ("a", "b", "a")]
    fields = {"action": "try_filter", "_selected_action": webhook.pk, "confirmed": "yes", "filter": '{"error": "a"}'}

    page = admin_client.post("/admin/webhooks_app/webhook/", fields)

    assert "The filter would have matched 2 of the last 3 events." in page.text
    assert all(f"/event/{event.pk}/change/" in page.text for event in events[1:])
    webhook.refresh_from_db()
    assert webhook.filter is None
    admin_client.post("/admin/webhooks_app/webhook/", {**fields, "use_filter": "yes"})
    webhook.refresh_from_db()
    assert webhook.filter == {"error": "a"}


@pytest.mark.parametrize(("error", "matched"), [("a", 2), ("none", 0)], ids=["all", "none"])
def test_the_console_previews_a_filter_that_matches_all_or_none(admin_client, alice, error, matched):
    webhook = make_webhook(alice)
    events = [emit_error(alice, "a") for _ in range(2)]
    fields = {"action": "try_filter", "_selected_action": webhook.pk, "confirmed": "yes"}

    page = admin_client.post("/admin/webhooks_app/webhook/", {**fields, "filter": f'{{"error": "{error}"}}'})

    assert f"The filter would have matched {matched} of the last 2 events." in page.text
    assert sum(f"/event/{event.pk}/change/" in page.text for event in events) == 1


def test_the_console_names_the_line_of_broken_json(admin_client, alice):
    webhook = make_webhook(alice)
    fields = {"action": "try_filter", "_selected_action": webhook.pk, "confirmed": "yes", "filter": '{\n"error": a}'}

    page = admin_client.post("/admin/webhooks_app/webhook/", fields)

    assert "Invalid JSON in line 2, column 10" in page.text
