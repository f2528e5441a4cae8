"""The header Idempotency-Key: the answer to the first request is stored and sent again."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.core.cache import cache
from django.db import connection, connections, transaction
from django.utils import timezone

from tests.support.rows import EVENT_TYPE, emit_one, end_deliveries, make_webhook, unverified
from tests.support.statements import statements_of
from webhooks_app import forget_owner
from webhooks_app.api import idempotency
from webhooks_app.maintenance.retention import delete_expired
from webhooks_app.models import ApiKey, Event, StoredAnswer, Webhook

from .conftest import PROBLEM, ApiClient, client_of

pytestmark = pytest.mark.django_db

NEW = {"url": "https://hooks.example.com/ppt", "events": ["file.deleted"]}


def create(client, body=NEW, key="k", path="/v1/webhooks"):
    return client.call("POST", path, body, **{"Idempotency-Key": key})


def test_a_repeated_request_gets_the_first_answer(api):
    first, again = create(api), create(api)

    assert (again.status_code, again.content) == (first.status_code, first.content) == (201, first.content)
    assert again["Location"] == first["Location"]
    assert (first.get("Idempotent-Replayed"), again["Idempotent-Replayed"]) == (None, "true")
    assert again.json()["secret"].startswith("whsec_")
    assert Webhook.objects.count() == 1


def test_the_same_body_written_otherwise_is_the_same_request(api):
    first, again = create(api), create(api, {"events": NEW["events"], "url": NEW["url"]})

    assert first.content == again.content


def test_another_body_is_a_conflict(api):
    create(api)

    answer = create(api, {**NEW, "description": "other"})

    assert (answer.status_code, answer["Content-Type"]) == (409, PROBLEM)
    assert "another body" in answer.json()["detail"]
    assert Webhook.objects.count() == 1


def test_keys_owners_and_routes_are_separate(api, bobs_api, alice):
    webhook = make_webhook(alice)

    ids = {create(*request).json()["id"] for request in ((api,), (api, NEW, "K"), (bobs_api,))}
    paused = create(api, {}, "k", f"/v1/webhooks/{webhook.id}/pause")

    assert len(ids) == 3
    assert (paused.status_code, paused.get("Idempotent-Replayed")) == (200, None)


def test_every_post_operation_repeats_its_answer(api, alice):
    webhook, other = make_webhook(alice), make_webhook(alice)
    event = emit_one(alice)
    delivery = webhook.deliveries.get()
    end_deliveries(state="given_up")
    unverified(other)
    requests = [
        ("/v1/webhooks/test", {"webhook_id": webhook.id, "event_type": "file.deleted"}),
        (f"/v1/webhooks/{webhook.id}/try-filter", {"event_id": event.id}),
        (f"/v1/webhooks/{webhook.id}/rotate-secret", {}),
        (f"/v1/webhooks/{webhook.id}/pause", {}),
        (f"/v1/webhooks/{other.id}/verify", {}),
        (f"/v1/deliveries/{delivery.id}/redeliver", {}),
        ("/v1/deliveries/redeliver", {"delivery_ids": [delivery.id]}),
        ("/v1/replays", {"webhook_id": webhook.id}),
    ]

    for path, body in requests:
        first, again = create(api, body, "k", path), create(api, body, "k", path)
        assert (again.status_code, again.content) == (first.status_code, first.content), path
        assert again.get("Idempotent-Replayed") == "true", (path, first.content)


def test_a_slash_at_the_end_does_not_matter(api):
    assert create(api).content == create(api, path="/v1/webhooks/").content


@pytest.mark.parametrize("key", ["", "x" * 256, "ü", "a\tb", "\x7f"], ids=["empty", "long", "umlaut", "tab", "DEL"])
@pytest.mark.parametrize("path", ["/v1/webhooks", "/v1/events"])
def test_an_unusable_key_is_refused(api, service, path, key):
    client = service if path == "/v1/events" else api

    answer = client.generic(
        "POST", path, b"{}", "application/json", HTTP_IDEMPOTENCY_KEY=key, HTTP_AUTHORIZATION=f"Bearer {client.key}"
    )

    assert answer.status_code == 400
    assert "Idempotency-Key" in answer.json()["errors"] or path == "/v1/events"


def test_the_longest_key_is_accepted(api):
    assert create(api, key=" ~" + "x" * 252 + "!").status_code == 201


def test_the_stored_answer_is_encrypted(api):
    secret = create(api).json()["secret"]

    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM webhooks_app_storedanswer")
        (row,) = cursor.fetchall()

    assert secret not in str(row)
    assert "hooks.example.com" not in str(row)


def test_the_permission_is_checked_again(api, alice):
    create(api)
    reader = client_of(alice, scopes=["webhooks:read"])

    refused = create(reader)
    ApiKey.objects.get(prefix=api.key.split("_")[1]).revoke()
    revoked = create(api)

    assert (refused.status_code, revoked.status_code) == (403, 401)
    assert "whsec_" not in refused.text + revoked.text


def test_the_filter_of_a_webhook_is_not_shown_again_without_its_scope(api, alice):
    webhook = make_webhook(alice, filter={"error": "never"})
    path, body = f"/v1/webhooks/{webhook.id}/try-filter", {"event_id": emit_one(alice).id}

    first = create(api, body, "k", path)
    answer = create(client_of(alice, scopes=["events:read"]), body, "k", path)

    assert (first.status_code, answer.status_code) == (200, 403)


def test_an_error_is_repeated(api, alice):
    webhook = unverified(make_webhook(alice))
    webhook.pause()

    first = create(api, {}, "k", f"/v1/webhooks/{webhook.id}/verify")
    webhook.resume()
    again = create(api, {}, "k", f"/v1/webhooks/{webhook.id}/verify")

    assert (first.status_code, again.status_code) == (409, 409)
    assert (again.content, again["Content-Type"]) == (first.content, PROBLEM)


def test_an_exceeded_rate_limit_is_not_stored(api, settings):
    settings.WEBHOOKS_PROBE_RATE = "1/min"
    create(api, key="first")

    refused = create(api)
    cache.clear()

    assert refused.status_code == 429
    assert create(api).status_code == 201


def test_an_error_of_the_server_is_not_stored(api, settings):
    settings.WEBHOOKS_ENCRYPTION_KEYS = ["broken"]
    failed = create(api)
    settings.WEBHOOKS_ENCRYPTION_KEYS = []

    assert (failed.status_code, StoredAnswer.objects.count()) == (500, 0)
    assert create(api).status_code == 201


def test_a_rolled_back_request_leaves_nothing(api):
    with transaction.atomic():
        create(api)
        transaction.set_rollback(True)

    assert (StoredAnswer.objects.count(), Webhook.objects.count()) == (0, 0)


@pytest.mark.django_db(transaction=True)
def test_with_atomic_requests_an_error_is_not_stored(api, alice, monkeypatch):
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    webhook = unverified(make_webhook(alice))
    webhook.pause()

    assert create(api, {}, "k", f"/v1/webhooks/{webhook.id}/verify").status_code == 409
    webhook.resume()
    assert create(api, {}, "k", f"/v1/webhooks/{webhook.id}/verify").status_code == 202


def test_an_answer_is_stored_for_a_day(api):
    first = create(api).json()
    StoredAnswer.objects.update(created_at=timezone.now() - timedelta(hours=23, minutes=59))
    again = create(api).json()
    StoredAnswer.objects.update(created_at=timezone.now() - timedelta(hours=24, seconds=1))
    new = create(api).json()

    assert first == again
    assert first["id"] != new["id"]


def test_the_workers_delete_expired_answers(api):
    create(api, key="old")
    StoredAnswer.objects.update(created_at=timezone.now() - timedelta(hours=25))
    create(api, key="new")

    delete_expired("default", timezone.now())

    assert StoredAnswer.objects.count() == 1


def test_an_answer_is_forgotten_with_its_owner(api, alice):
    create(api)

    forget_owner(alice)

    assert StoredAnswer.objects.count() == 0


def test_an_answer_that_cannot_be_decrypted_is_a_conflict(api, settings):
    create(api)
    settings.SECRET_KEY = "another key that is long enough for tests"

    answer = create(api)

    assert (answer.status_code, Webhook.objects.count()) == (409, 1)
    assert "cannot be decrypted" in answer.json()["detail"]


def test_without_the_header_there_is_no_statement_about_answers(api):
    statements = statements_of(lambda: api.call("POST", "/v1/webhooks", NEW))

    assert statements
    assert not [sql for sql in statements if "storedanswer" in sql.lower() or "lock_timeout" in sql]


def test_events_keep_their_own_keys(service):
    body = {"type": EVENT_TYPE, "owner": None, "data": {"error": "No outline"}}

    first, again = (create(service, body, "k", "/v1/events") for _ in range(2))

    assert (first.status_code, first.content) == (202, again.content)
    assert (Event.objects.count(), StoredAnswer.objects.count()) == (1, 0)


@pytest.mark.django_db(transaction=True)
def test_simultaneous_requests_make_one_webhook(alice):
    key, barrier = client_of(alice).key, threading.Barrier(6)

    def create_at_once(number):
        client = ApiClient(key)
        barrier.wait()
        try:
            return create(client)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(6) as threads:
        answers = list(threads.map(create_at_once, range(6)))

    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.content for answer in answers}) == 1
    assert Webhook.objects.count() == 1


@pytest.mark.only_on("postgresql", "mariadb")  # SQLite waits for the timeout of the connection
@pytest.mark.django_db(transaction=True)
def test_a_request_in_progress_is_a_conflict_after_a_while(alice, monkeypatch):
    monkeypatch.setattr(idempotency, "MAX_WAIT_SECONDS", 1.0)
    client = client_of(alice)

    def create_second():
        try:
            return create(client)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as threads, transaction.atomic():
        first = create(client_of(alice))
        refused = threads.submit(create_second).result(60)

    assert (first.status_code, refused.status_code) == (201, 409)
    assert "Try again" in refused.json()["detail"]
    assert create(client).content == first.content
