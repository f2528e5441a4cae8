"""Replays and the redelivery of a selection over the API."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from tests.support.rows import EVENT_TYPE, emit_one, end_deliveries, make_webhook
from webhooks_app.models import Delivery, Replay, Webhook
from webhooks_app.replays.runner import advance

pytestmark = pytest.mark.django_db


@pytest.fixture
def webhook(alice):
    webhook = make_webhook(alice, EVENT_TYPE, "file.uploaded")
    Webhook.objects.update(created_at=timezone.now() - timedelta(days=1))
    return webhook


@pytest.fixture
def missed(webhook, alice):
    """An event that was never queued for the webhook."""
    event = emit_one(alice)
    event.deliveries.all().delete()
    return event


def plan(api, webhook, **fields):
    return api.call("POST", "/v1/replays", {"webhook_id": webhook.id, **fields})


def test_a_replay_is_planned_started_and_read(api, alice, webhook, missed):
    planned = plan(api, webhook)
    record = planned.json()

    assert planned.status_code == 201
    assert planned["Location"].endswith(f"/v1/replays/{record['id']}")
    assert (record["state"], record["matched"], record["queued"]) == ("ready", 1, 0)
    assert [each["event_id"] for each in record["sample"]] == [missed.id]
    assert not Delivery.objects.exists()

    started = api.call("POST", f"/v1/replays/{record['id']}/start")
    assert (started.status_code, started.json()["state"]) == (200, "running")
    advance("default", record["id"], timezone.now())

    read = api.call("GET", f"/v1/replays/{record['id']}").json()
    assert (read["state"], read["queued"]) == ("done", 1)
    (delivery,) = api.call("GET", f"/v1/deliveries?replay_id={record['id']}").json()["results"]
    assert (delivery["event_id"], delivery["replay_id"]) == (missed.id, record["id"])
    assert Delivery.objects.get().requested_by == alice


def test_the_plan_follows_the_request(api, webhook):
    since, until = "2026-01-31T12:00:00+01:00", "2026-02-01T00:00:00Z"
    Webhook.objects.update(created_at="2025-01-01T00:00:00Z")

    record = plan(api, webhook, since=since, until=until, events=["file.uploaded"], states=["succeeded"], rate=5).json()

    assert (record["since"], record["until"]) == ("2026-01-31T11:00:00.000000Z", "2026-02-01T00:00:00.000000Z")
    assert (record["events"], record["states"], record["rate"]) == (["file.uploaded"], ["succeeded"], 5.0)


def test_operations_on_a_replay_depend_on_its_state(api, webhook, missed):
    replay_id = plan(api, webhook).json()["id"]
    answers = [
        api.call("POST", f"/v1/replays/{replay_id}/{verb}")
        for verb in ("pause", "start", "pause", "resume", "cancel", "resume")
    ]

    assert [answer.status_code for answer in answers] == [409, 200, 200, 200, 200, 409]
    assert [answer.json()["state"] for answer in answers[1:5]] == ["running", "paused", "running", "cancelled"]
    assert answers[5].json()["detail"].startswith(f"Replay {replay_id} is cancelled")


def test_a_replay_of_an_unsubscribed_type_is_a_conflict(api, webhook):
    answer = plan(api, webhook, events=["user.registered"])

    assert (answer.status_code, Replay.objects.exists()) == (409, False)
    assert answer.json()["detail"].endswith("is not subscribed to: user.registered.")


def test_a_replay_to_a_disabled_webhook_is_counted_but_not_started(api, webhook, missed):
    webhook.disable("Out of order.")
    record = plan(api, webhook).json()

    refused = api.call("POST", f"/v1/replays/{record['id']}/start")

    assert (record["state"], record["matched"]) == ("ready", 1)
    assert refused.status_code == 409
    assert "Out of order." in refused.json()["detail"]


def test_a_replay_that_finds_no_events_is_done_and_not_started(api, webhook):
    record = plan(api, webhook).json()

    refused = api.call("POST", f"/v1/replays/{record['id']}/start")

    assert (record["state"], record["matched"]) == ("done", 0)
    assert record["finished_at"]
    assert refused.status_code == 409
    assert "is done; only a ready replay can be started" in refused.json()["detail"]


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"since": "2026-01-31T12:00:00"}, "since"),
        ({"since": 5}, "since"),
        ({"until": "0001-01-01T00:00:00+09:00"}, "until"),
        ({"since": "2026-02-01T00:00:00Z", "until": "2026-02-01T01:00:00+01:00"}, "until"),
        ({"states": ["lost"]}, "states"),
        ({"states": []}, "states"),
        ({"events": "file.uploaded"}, "events"),
        ({"rate": 0}, "rate"),
    ],
    ids=["no-offset", "number", "too-early", "no-time", "unknown-state", "no-state", "no-list", "no-rate"],
)
def test_an_invalid_replay_is_refused_by_field(api, webhook, fields, name):
    answer = plan(api, webhook, **fields)

    assert answer.status_code == 400
    assert list(answer.json()["errors"]) == [name]
    assert not Replay.objects.exists()


def test_the_list_is_filtered_by_webhook_and_state(api, alice, webhook, missed):
    first, other = plan(api, webhook).json(), plan(api, make_webhook(alice)).json()
    api.call("POST", f"/v1/replays/{first['id']}/cancel")

    def found(query):
        return [record["id"] for record in api.call("GET", f"/v1/replays{query}").json()["results"]]

    assert set(found("")) == {other["id"], first["id"]}
    assert found(f"?webhook_id={webhook.id}") == found("?state=cancelled") == [first["id"]]


def test_another_owners_webhook_cannot_be_replayed(api, bob):
    answers = [plan(api, make_webhook(bob)), plan(api, Webhook(id="wh_" + "7" * 32))]

    assert [answer.status_code for answer in answers] == [404, 404]
    assert answers[0].content == answers[1].content
    assert not Replay.objects.exists()


def redeliver(api, *ids):
    return api.call("POST", "/v1/deliveries/redeliver", {"delivery_ids": list(ids)})


def test_the_possible_deliveries_of_a_selection_are_redelivered(api, alice, bob, webhook):
    emit_one(alice)
    stopped = make_webhook(alice, "file.uploaded")
    mine = Delivery.objects.get()
    refused = Delivery.objects.create(event=mine.event, webhook=stopped)
    make_webhook(bob)
    theirs = emit_one(bob).deliveries.get()
    end_deliveries(state="given_up")
    stopped.disable("Out of order.")

    answer = redeliver(api, mine.id, refused.id, theirs.id, "dlv_unknown", mine.id)

    assert answer.status_code == 202
    again = Delivery.objects.get(redelivery_of=mine)
    assert again.requested_by == alice
    assert answer.json()["queued"] == [{"delivery_id": again.id, "event_id": mine.event_id}]
    reasons = {each["delivery_id"]: each["reason"] for each in answer.json()["refused"]}
    assert "Out of order." in reasons.pop(refused.id)
    assert reasons == dict.fromkeys([theirs.id, "dlv_unknown"], "There is no such delivery.")
    assert Delivery.objects.filter(event=theirs.event).count() == 1


def test_a_second_redelivery_is_linked_to_the_first_delivery(api, alice, webhook):
    first = emit_one(alice).deliveries.get()
    end_deliveries(state="given_up")
    redeliver(api, first.id)
    end_deliveries(state="given_up")
    redeliver(api, Delivery.objects.get(redelivery_of=first).id)

    assert Delivery.objects.filter(redelivery_of=first).count() == 2


@pytest.mark.parametrize("number", [0, 101], ids=["none", "too-many"])
def test_the_size_of_a_selection_is_limited(api, number):
    answer = redeliver(api, *(f"dlv_{place:032x}" for place in range(number)))

    assert (answer.status_code, list(answer.json()["errors"])) == (400, ["delivery_ids"])


def test_tests_in_a_selection_count_as_tests(api, webhook, settings):
    settings.WEBHOOKS_TEST_RATE = "1/min"
    api.call("POST", "/v1/webhooks/test", {"webhook_id": webhook.id, "event_type": EVENT_TYPE})
    end_deliveries(state="given_up")

    answer = redeliver(api, Delivery.objects.get().id).json()

    assert answer["queued"] == []
    assert "Too many test events" in answer["refused"][0]["reason"]
