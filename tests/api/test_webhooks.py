"""Registering webhooks and changing them."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

import pytest

from tests.support.rows import EVENT_TYPE, URL, emit_one, make_webhook
from webhooks_app.models import Delivery, Webhook, WebhookHealth
from webhooks_app.reasons import ReasonText

pytestmark = pytest.mark.django_db

NEW = {"url": URL, "events": [EVENT_TYPE]}
NEW_URL = "http://127.0.0.1:9001/new"
RECORD = [
    "id",
    "url",
    "pending_url",
    "events",
    "status",
    "status_reason",
    "status_reason_code",
    "status_changed_at",
    "paused_at",
    "failing_since",
    "health",
    "filter",
    "description",
    "retry_notices",
    "max_in_flight",
    "rate_limit",
    "signatures",
    "headers",
    "retry_policy",
    "accepted_statuses",
    "order",
    "recovery",
    "public_keys",
    "previous_secret_until",
    "secret_activates_at",
    "created",
]
SECRET = "a secret of my own choice"


def test_creation_returns_the_record_with_its_secret(api):
    answer = api.call("POST", "/v1/webhooks", NEW)

    assert answer.status_code == 201
    assert list(answer.json()) == [*RECORD, "secret"]
    assert re.fullmatch("wh_[0-9a-f]{32}", answer.json()["id"])
    assert re.fullmatch(r"whsec_[A-Za-z0-9+/]{43}=", answer.json()["secret"])


def test_the_record_has_the_start_of_the_failing_period(api, alice):
    webhook = make_webhook(alice)
    since = datetime(2026, 1, 31, 12, tzinfo=UTC)
    WebhookHealth.objects.create(webhook=webhook, failing_since=since)

    read, listed = api.call("GET", f"/v1/webhooks/{webhook.pk}").json(), api.call("GET", "/v1/webhooks").json()

    assert read["failing_since"] == "2026-01-31T12:00:00.000000Z"
    assert listed["results"] == [read]


def test_creation_returns_the_location_of_the_record(api):
    answer = api.call("POST", "/v1/webhooks", NEW)

    found = api.call("GET", answer["Location"])

    assert answer["Location"] == f"http://testserver/v1/webhooks/{answer.json()['id']}"
    assert found.json() == {name: value for name, value in answer.json().items() if name != "secret"}


def test_a_webhook_belongs_to_the_owner_of_the_key(api, alice):
    api.call("POST", "/v1/webhooks", NEW)

    assert Webhook.objects.get().owner == alice


def test_creation_starts_a_verification(api):
    webhook_id = api.call("POST", "/v1/webhooks", NEW).json()["id"]

    assert Webhook.objects.get().status == "pending"
    assert [(d.webhook_id, d.kind) for d in Delivery.objects.all()] == [(webhook_id, "verification")]


def test_all_fields_can_be_given(api):
    given = {**NEW, "events": ["file.uploaded", "file.deleted"], "description": " für mich ", "retry_notices": False}

    answer = api.call("POST", "/v1/webhooks", {**given, "secret": SECRET})

    assert {name: answer.json()[name] for name in (*given, "secret")} == {**given, "secret": SECRET}


def test_a_given_secret_is_stored_unchanged(api):
    secret = "  schlüssel mit rändern  "

    assert api.call("POST", "/v1/webhooks", {**NEW, "secret": secret}).json()["secret"] == secret
    assert Webhook.objects.get().secret == secret


def test_repeated_event_types_are_removed(api):
    events = ["file.uploaded", "file.deleted", "file.uploaded"]

    assert api.call("POST", "/v1/webhooks", {**NEW, "events": events}).json()["events"] == events[:2]


def test_the_same_url_can_be_registered_twice(api):
    assert [api.call("POST", "/v1/webhooks", NEW).status_code for _ in range(2)] == [201, 201]


def test_times_are_written_as_in_the_envelope(api):
    created = api.call("POST", "/v1/webhooks", NEW).json()["created"]

    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", created)


def test_limits_can_be_set_changed_and_removed(api):
    made = api.call("POST", "/v1/webhooks", {**NEW, "max_in_flight": 2, "rate_limit": 0.5}).json()
    changed = api.call("PATCH", f"/v1/webhooks/{made['id']}", {"max_in_flight": None, "rate_limit": 3}).json()

    assert (made["max_in_flight"], made["rate_limit"]) == (2, 0.5)
    assert (changed["max_in_flight"], changed["rate_limit"]) == (None, 3.0)


@pytest.mark.parametrize(("setting", "most"), [(4, 4), (5000, 1000)])
def test_an_owner_cannot_raise_the_number_of_concurrent_requests(api, settings, setting, most):
    settings.WEBHOOKS_MAX_IN_FLIGHT_PER_WEBHOOK = setting
    made = api.call("POST", "/v1/webhooks", {**NEW, "max_in_flight": most}).json()

    refused = [
        api.call("POST", "/v1/webhooks", {**NEW, "max_in_flight": most + 1}),
        api.call("PATCH", f"/v1/webhooks/{made['id']}", {"max_in_flight": most + 1}),
    ]

    assert made["max_in_flight"] == most
    assert [answer.status_code for answer in refused] == [400, 400]
    assert all(
        f"at most {most} concurrent requests" in answer.json()["errors"]["max_in_flight"][0] for answer in refused
    )


def test_a_limit_raised_by_staff_remains_after_other_changes(api, alice):
    webhook = make_webhook(alice, max_in_flight=500)

    answer = api.call("PATCH", f"/v1/webhooks/{webhook.id}", {"description": "busy"})

    assert (answer.status_code, answer.json()["max_in_flight"]) == (200, 500)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        pytest.param({"events": [EVENT_TYPE]}, "url", id="no url"),
        pytest.param({**NEW, "url": ""}, "url", id="empty url"),
        pytest.param({**NEW, "url": None}, "url", id="null url"),
        pytest.param({**NEW, "url": 5}, "url", id="url is a number"),
        pytest.param({**NEW, "url": "ftp://example.com/"}, "url", id="scheme"),
        pytest.param({**NEW, "url": " https://example.com/"}, "url", id="space before the url"),
        pytest.param({**NEW, "url": "https://10.0.0.1/"}, "url", id="private address"),
        pytest.param({**NEW, "url": "https://example.com/" + "x" * 2048}, "url", id="long url"),
        pytest.param({"url": URL}, "events", id="no events"),
        pytest.param({**NEW, "events": []}, "events", id="empty events"),
        pytest.param({**NEW, "events": EVENT_TYPE}, "events", id="events is a string"),
        pytest.param({**NEW, "events": [1]}, "events[0]", id="events holds a number"),
        pytest.param({**NEW, "events": {EVENT_TYPE: 1}}, "events", id="events is an object"),
        pytest.param({**NEW, "events": ["webhook.retry"]}, "events", id="internal type"),
        pytest.param({**NEW, "events": [EVENT_TYPE] * 65}, "events", id="65 events"),
        pytest.param({**NEW, "secret": "x" * 15}, "secret", id="short secret"),
        pytest.param({**NEW, "secret": "x" * 257}, "secret", id="long secret"),
        pytest.param({**NEW, "secret": "x" * 16 + "\n"}, "secret", id="control character in the secret"),
        pytest.param({**NEW, "secret": None}, "secret", id="null secret"),
        pytest.param({**NEW, "secret": ["x" * 16]}, "secret", id="secret is a list"),
        pytest.param({**NEW, "description": "x" * 201}, "description", id="long description"),
        pytest.param({**NEW, "retry_notices": "yes"}, "retry_notices", id="retry_notices is a string"),
        pytest.param({**NEW, "retry_notices": 1}, "retry_notices", id="retry_notices is a number"),
        pytest.param({**NEW, "max_in_flight": 0}, "max_in_flight", id="nothing in flight"),
        pytest.param({**NEW, "max_in_flight": "2"}, "max_in_flight", id="max_in_flight is a string"),
        pytest.param({**NEW, "rate_limit": 0}, "rate_limit", id="no rate"),
        pytest.param({**NEW, "rate_limit": "5"}, "rate_limit", id="rate_limit is a string"),
        pytest.param({**NEW, "rate_limit": True}, "rate_limit", id="rate_limit is a flag"),
    ],
)
def test_an_invalid_field_is_named(api, body, field):
    answer = api.call("POST", "/v1/webhooks", body)

    assert answer.status_code == 400
    assert list(answer.json()["errors"]) == [field]
    assert len(answer.json()["errors"][field]) == 1
    assert not Webhook.objects.exists()


def test_an_unknown_event_type_is_answered_with_the_known_types(api):
    answer = api.call("POST", "/v1/webhooks", {**NEW, "events": ["file.uploaded", "file.eaten"]})

    assert answer.status_code == 400
    (message,) = answer.json()["errors"]["events"]
    assert "'file.eaten'" in message
    assert "ppt.generation.started" in message


def test_a_new_webhook_has_no_read_only_fields(api, bob):
    forged = {"id": "wh_" + "0" * 32, "status": "active", "created": "2001-01-01", "paused_at": None}

    answer = api.call("POST", "/v1/webhooks", {**NEW, **forged, "owner": bob.pk})

    errors = answer.json()["errors"]
    assert answer.status_code == 400
    assert {name: "read-only" in messages[0] for name, messages in errors.items()} == {
        **dict.fromkeys(forged, True),
        "owner": False,
    }
    assert Webhook.objects.count() == 0


def test_the_number_of_an_owners_webhooks_is_limited(api, settings):
    settings.WEBHOOKS_MAX_WEBHOOKS_PER_OWNER = 1
    api.call("POST", "/v1/webhooks", NEW)

    answer = api.call("POST", "/v1/webhooks", NEW)

    assert answer.status_code == 400
    assert "The limit of 1 for this account" in answer.json()["detail"]
    assert list(answer.json()["errors"]) == ["non_field_errors"]


def test_no_other_answer_contains_the_secret(api):
    created = api.call("POST", "/v1/webhooks", {**NEW, "secret": SECRET}).json()
    address = f"/v1/webhooks/{created['id']}"

    answers = [
        api.call("GET", "/v1/webhooks"),
        api.call("GET", address),
        api.call("PATCH", address, {"description": "x"}),
        api.call("POST", f"{address}/verify"),
        api.call("POST", f"{address}/disable"),
        api.call("POST", f"{address}/enable"),
        api.call("GET", f"{address}/deliveries"),
    ]

    assert all(answer.status_code < 300 and SECRET not in answer.text for answer in answers)


def test_a_change_affects_only_the_given_fields(api, alice):
    webhook = make_webhook(alice, "file.uploaded", description="old")

    answer = api.call("PATCH", f"/v1/webhooks/{webhook.id}", {"description": "new"})

    assert answer.status_code == 200
    assert list(answer.json()) == RECORD
    webhook.refresh_from_db()
    assert (webhook.description, webhook.event_types, webhook.status) == ("new", ["file.uploaded"], "active")


def test_events_can_be_changed(api, alice):
    webhook = make_webhook(alice, "file.uploaded")

    answer = api.call("PATCH", f"/v1/webhooks/{webhook.id}", {"events": ["file.deleted"]})

    assert answer.json()["events"] == ["file.deleted"]


def test_a_new_url_is_verified_first(api, alice):
    webhook = make_webhook(alice)

    answer = api.call("PATCH", f"/v1/webhooks/{webhook.id}", {"url": NEW_URL})

    assert answer.status_code == 200
    shown = api.call("GET", f"/v1/webhooks/{webhook.id}").json()
    assert (shown["url"], shown["pending_url"], shown["status"]) == (URL, NEW_URL, "active")
    assert [delivery.kind for delivery in webhook.deliveries.all()] == ["verification"]


def test_the_current_url_withdraws_the_new_one(api, alice):
    webhook = make_webhook(alice)
    api.call("PATCH", f"/v1/webhooks/{webhook.id}", {"url": NEW_URL})

    answer = api.call("PATCH", f"/v1/webhooks/{webhook.id}", {"url": URL})

    assert (answer.json()["url"], answer.json()["pending_url"]) == (URL, None)


def test_a_record_sent_back_keeps_its_new_url(api, alice):
    webhook = make_webhook(alice)
    record = api.call("PATCH", f"/v1/webhooks/{webhook.id}", {"url": NEW_URL}).json()

    answer = api.call("PATCH", f"/v1/webhooks/{webhook.id}", {**record, "description": "Archive"})

    assert (answer.json()["description"], answer.json()["pending_url"]) == ("Archive", NEW_URL)


def test_another_pending_url_is_refused(api, alice):
    webhook = make_webhook(alice)

    answer = api.call("PATCH", f"/v1/webhooks/{webhook.id}", {"pending_url": NEW_URL})

    assert answer.json()["errors"] == {"pending_url": ["This field is read-only. Leave it out, or send it unchanged."]}


def test_a_failed_new_url_is_explained(api, alice):
    webhook = make_webhook(alice)
    api.call("PATCH", f"/v1/webhooks/{webhook.id}", {"url": NEW_URL})
    webhook.refresh_from_db()
    webhook.keep_url(ReasonText("challenge_missing"))

    shown = api.call("GET", f"/v1/webhooks/{webhook.id}").json()

    assert (shown["url"], shown["pending_url"], shown["status"]) == (URL, None, "active")
    assert shown["status_reason_code"] == "new_url_failed"
    assert shown["status_reason"] == (
        f"The new URL {NEW_URL} failed its verification, so the webhook keeps its URL. The answer has no field "
        "“challenge” at its top level."
    )
    audit = api.call("GET", f"/v1/webhooks/{webhook.id}/audit").json()["results"]
    assert [(entry["action"], entry["changes"]) for entry in audit][:2] == [
        ("webhook.verification_failed", {"pending_url": [NEW_URL, ""]}),
        ("webhook.changed", {"pending_url": ["", NEW_URL]}),
    ]


def test_the_same_url_is_not_verified_again(api, alice):
    webhook = make_webhook(alice)

    assert api.call("PATCH", f"/v1/webhooks/{webhook.id}", {"url": webhook.url}).json()["status"] == "active"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"url": "https://localhost/"}, "url"),
        ({"events": []}, "events"),
        ({"events": ["no.such"]}, "events"),
        ({"description": 7}, "description"),
        ({"secret": SECRET}, "secret"),
    ],
    ids=str,
)
def test_an_invalid_change_is_refused_as_a_whole(api, alice, changes, field):
    webhook = make_webhook(alice, description="old")

    answer = api.call("PATCH", f"/v1/webhooks/{webhook.id}", {"description": "new", **changes})

    assert answer.status_code == 400
    assert list(answer.json()["errors"]) == [field]
    webhook.refresh_from_db()
    assert webhook.description == "old"


def test_a_change_of_read_only_fields_is_refused(api, alice):
    webhook = make_webhook(alice, status="pending")
    forged = {"id": "wh_" + "0" * 32, "status": "active", "created": "2001-01-01T00:00:00Z"}

    before = api.call("GET", f"/v1/webhooks/{webhook.id}").json()
    answer = api.call("PATCH", f"/v1/webhooks/{webhook.id}", {**forged, "description": "new"})

    assert answer.status_code == 400
    message = "This field is read-only. Leave it out, or send it unchanged."
    assert answer.json()["errors"] == {name: [message] for name in forged}
    assert api.call("GET", f"/v1/webhooks/{webhook.id}").json() == before


def test_a_webhook_can_be_read_changed_and_sent_back(api, alice):
    webhook = make_webhook(alice, status="failed", filter={"error": "E"}, rate_limit=2, description="old")
    path = f"/v1/webhooks/{webhook.id}"
    api.call("PATCH", path, {"headers": {"X-Tenant": "blue"}, "signatures": ["native", "standard-ed25519"]})

    record = api.call("GET", path).json()
    answer = api.call("PATCH", path, {**record, "description": "new"})

    assert answer.status_code == 200, answer.text
    assert answer.json() == {**record, "description": "new"}


def test_deletion_hides_the_webhook_and_cancels_pending_deliveries(api, alice):
    webhook = make_webhook(alice)
    emit_one(alice)

    answer = api.call("DELETE", f"/v1/webhooks/{webhook.id}")

    assert (answer.status_code, answer.content) == (204, b"")
    assert api.call("GET", f"/v1/webhooks/{webhook.id}").status_code == 404
    assert api.call("GET", "/v1/webhooks").json()["results"] == []
    assert Delivery.objects.get().state == "cancelled"


def test_the_log_of_a_deleted_webhook_can_still_be_read(api, alice):
    webhook = make_webhook(alice)
    emit_one(alice)
    api.call("DELETE", f"/v1/webhooks/{webhook.id}")

    answer = api.call("GET", f"/v1/deliveries/{Delivery.objects.get().id}")

    assert (answer.status_code, answer.json()["state_reason"]) == (200, "webhook_deleted")


def test_rotation_shows_the_new_secret_once(api, alice):
    webhook = make_webhook(alice)
    old = webhook.secret

    answer = api.call("POST", f"/v1/webhooks/{webhook.id}/rotate-secret")

    assert answer.status_code == 200
    assert list(answer.json()) == [*RECORD, "secret", "warnings"]
    assert Webhook.objects.get().secret == answer.json()["secret"] != old


def test_rotation_accepts_a_given_secret(api, alice):
    webhook = make_webhook(alice)

    answer = api.call("POST", f"/v1/webhooks/{webhook.id}/rotate-secret", {"secret": SECRET})

    assert Webhook.objects.get().secret == answer.json()["secret"] == SECRET


@pytest.mark.parametrize("secret", ["", "short", "x" * 16 + "\x7f", None, 5], ids=repr)
def test_rotation_refuses_an_unusable_secret(api, alice, secret):
    webhook = make_webhook(alice, secret=SECRET)

    answer = api.call("POST", f"/v1/webhooks/{webhook.id}/rotate-secret", {"secret": secret})

    assert (answer.status_code, list(answer.json()["errors"])) == (400, ["secret"])
    assert len(answer.json()["errors"]["secret"]) == 1
    assert Webhook.objects.get().secret == SECRET


def test_a_disabled_webhook_has_the_reason_and_the_time(api, alice):
    webhook = make_webhook(alice)

    answer = api.call("POST", f"/v1/webhooks/{webhook.id}/disable")

    assert answer.status_code == 200
    assert (answer.json()["status"], answer.json()["status_reason"]) == ("disabled", "Disabled by its account.")
    assert answer.json()["status_changed_at"] > answer.json()["created"]


def test_disabling_twice_changes_nothing(api, alice):
    webhook = make_webhook(alice)

    answers = [api.call("POST", f"/v1/webhooks/{webhook.id}/disable").json() for _ in range(2)]

    assert answers[0] == answers[1]


def test_a_paused_webhook_has_the_start_of_the_pause(api, alice):
    webhook = make_webhook(alice)
    emit_one(alice)

    paused = api.call("POST", f"/v1/webhooks/{webhook.id}/pause").json()
    resumed = api.call("POST", f"/v1/webhooks/{webhook.id}/resume").json()

    assert (paused["status"], paused["paused_at"] > paused["created"]) == ("active", True)
    assert resumed["paused_at"] is None
    assert [delivery.state for delivery in webhook.deliveries.all()] == ["pending"]


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_pausing_and_resuming_twice_changes_nothing(api, alice, verb):
    webhook = make_webhook(alice)

    answers = [api.call("POST", f"/v1/webhooks/{webhook.id}/{verb}") for _ in range(2)]

    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].json() == answers[1].json()


def test_a_disabled_webhook_is_not_paused(api, alice):
    webhook = make_webhook(alice, status="disabled")

    answer = api.call("POST", f"/v1/webhooks/{webhook.id}/pause")

    assert (answer.status_code, "Enable it first" in answer.json()["detail"]) == (409, True)


@pytest.mark.parametrize("verb", ["verify", "test"])
def test_tests_and_verifications_are_refused_during_a_pause(api, alice, verb):
    webhook = make_webhook(alice, status="pending")
    webhook.pause()
    requests = {
        "verify": (f"/v1/webhooks/{webhook.id}/verify", {}),
        "test": ("/v1/webhooks/test", {"webhook_id": webhook.id, "event_type": EVENT_TYPE}),
    }

    answer = api.call("POST", *requests[verb])

    assert (answer.status_code, "Resume it first" in answer.json()["detail"]) == (409, True)


def test_enabling_starts_a_verification(api, alice):
    webhook = make_webhook(alice)
    webhook.disable("maintenance")

    answer = api.call("POST", f"/v1/webhooks/{webhook.id}/enable")

    assert (answer.status_code, answer.json()["status"], answer.json()["status_reason"]) == (200, "pending", "")
    assert [delivery.kind for delivery in webhook.deliveries.pending()] == ["verification"]


def test_enabling_an_active_webhook_changes_nothing(api, alice):
    webhook = make_webhook(alice)

    assert api.call("POST", f"/v1/webhooks/{webhook.id}/enable").json()["status"] == "active"
    assert not webhook.deliveries.exists()


def test_a_failed_webhook_is_verified_rather_than_enabled(api, alice):
    webhook = make_webhook(alice, status="failed")

    answer = api.call("POST", f"/v1/webhooks/{webhook.id}/enable")

    assert answer.status_code == 409
    assert "failed its verification" in answer.json()["detail"]


@pytest.mark.parametrize("status", ["pending", "failed"])
def test_a_verification_can_be_started_again(api, alice, status):
    webhook = make_webhook(alice, status=status)

    answer = api.call("POST", f"/v1/webhooks/{webhook.id}/verify")

    assert answer.status_code == 202
    assert answer.json() == {"delivery_id": webhook.deliveries.pending().get().id}
    assert api.call("GET", f"/v1/webhooks/{webhook.id}").json()["status"] == "pending"


def test_a_disabled_webhook_is_not_verified(api, alice):
    webhook = make_webhook(alice, status="disabled")

    answer = api.call("POST", f"/v1/webhooks/{webhook.id}/verify")

    assert answer.status_code == 409
    assert "Enable it first" in answer.json()["detail"]


def test_a_slash_at_the_end_makes_no_difference(api):
    created = api.call("POST", "/v1/webhooks/", NEW)

    with_slash = api.call("GET", f"/v1/webhooks/{created.json()['id']}/")

    assert (created.status_code, with_slash.status_code) == (201, 200)
    assert created["Location"] == f"http://testserver/v1/webhooks/{created.json()['id']}"


def test_answers_are_not_cacheable(api):
    answer = api.call("GET", "/v1/webhooks")

    assert answer["Cache-Control"] == "no-store, private"
    assert "Authorization" in answer["Vary"]


def test_non_ascii_text_is_not_escaped(api):
    answer = api.call("POST", "/v1/webhooks", {**NEW, "description": "Schlüssel 🔑"})

    assert "Schlüssel 🔑" in answer.text
    assert json.loads(answer.content)["description"] == "Schlüssel 🔑"
