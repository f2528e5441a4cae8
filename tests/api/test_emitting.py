"""Emission by other services of the project, over the API."""

from __future__ import annotations

import pytest
from django.core.exceptions import PermissionDenied, ValidationError

from webhooks_app import NewEvent
from webhooks_app.models import ApiKey, Delivery, Event
from webhooks_app.operations.actors import ApiCaller
from webhooks_app.operations.rights import EMIT_EVENT
from webhooks_app.operations.sending import emit_events

from ..support.rows import EVENT_TYPE, make_webhook
from .conftest import PROBLEM

pytestmark = pytest.mark.django_db


def event_of(owner, error="No outline", **fields):
    return {"type": EVENT_TYPE, "owner": owner and str(owner.pk), "data": {"error": error}, **fields}


def post(client, body, **headers):
    return client.call("POST", "/v1/events", body, **headers)


def test_an_event_is_recorded_for_its_owner(service, alice, bob):
    webhook = make_webhook(alice)
    make_webhook(bob)

    answer = post(service, event_of(alice, references=["ppt_1"], ordering_key="k", occurred_at="2026-01-31T12:00:00Z"))

    event = Event.objects.get()
    assert (answer.status_code, answer.json()["id"]) == (202, event.pk)
    assert (event.owner, event.data) == (alice, {"error": "No outline"})
    assert answer.json()["created"] == "2026-01-31T12:00:00.000000Z"
    assert [row.value for row in event.references.all()] == ["ppt_1"]
    assert event.ordering_key == "k"
    assert Delivery.objects.filter(event=event).get().webhook == webhook


def test_an_event_without_an_owner_belongs_to_the_platform(service):
    post(service, event_of(None))

    assert Event.objects.get().owner is None


def test_a_batch_is_recorded_in_its_order(service, alice, bob):
    answer = post(service, {"events": [event_of(alice, "a"), event_of(bob, "b")]})

    ids = [record["id"] for record in answer.json()["events"]]
    assert [Event.objects.get(pk=pk).data["error"] for pk in ids] == ["a", "b"]


def test_a_batch_with_errors_is_refused_as_a_whole_with_their_indexes(service, alice):
    batch = [
        event_of(alice),
        event_of(alice, error=5),
        {**event_of(alice), "type": "ppt.generation.fail"},
        {**event_of(alice), "owner": "999999999"},
    ]

    owners = post(service, {"events": batch}).json()["errors"]
    types = post(service, {"events": batch[:3]}).json()["errors"]

    assert owners == {**types, "events[3].owner": ["There is no owner '999999999'."]}
    assert list(types) == ["events[1].data.error", "events[2].type"]
    assert "Did you mean ppt.generation.failed?" in types["events[2].type"][0]
    assert Event.objects.count() == 0


def test_all_problems_of_all_events_of_a_batch_are_reported_at_once(service, alice):
    batch = [
        event_of(alice),
        {**event_of(alice), "typ": EVENT_TYPE, "occurred_at": "yesterday", "owner": "no one"},
        event_of(alice, error=5, ordering_key="a\n", references=["\t"]),
        "no event",
        {"type": EVENT_TYPE, "data": {}, "owner": 7},
    ]

    answer = post(service, {"events": batch, "event": {}})

    assert answer.status_code == 400
    errors = answer.json()["errors"]
    assert {name: errors[name] for name in ("event", "events[1].typ")} == {
        "event": ["Unknown field. Did you mean events?"],
        "events[1].typ": ["Unknown field. Did you mean type?"],
    }
    assert set(errors) == {
        *("event", "events[1].typ", "events[1].occurred_at", "events[1].owner"),
        *("events[2].data.error", "events[2].ordering_key", "events[2].references[0]"),
        *("events[3]", "events[4].data.error", "events[4].owner"),
    }


@pytest.mark.parametrize(
    ("first", "second", "differing"),
    [
        pytest.param({}, {"references": ["r"]}, "references", id="references"),
        pytest.param({}, {"ordering_key": "o"}, "ordering_key", id="ordering key"),
        pytest.param({"occurred_at": "2026-01-31T12:00:00Z"}, {}, "occurred_at", id="no time"),
        pytest.param(
            {"occurred_at": "2026-01-31T12:00:00Z"}, {"occurred_at": "2026-01-31T12:00:01Z"}, "occurred_at", id="time"
        ),
        pytest.param({}, {"references": ["r"], "ordering_key": "o"}, "references, ordering_key", id="two"),
    ],
)
def test_a_conflict_names_what_differs(service, alice, first, second, differing):
    post(service, event_of(alice, idempotency_key="k", **first))

    answer = post(service, event_of(alice, idempotency_key="k", **second))

    assert answer.status_code == 409
    assert f"with other values of: {differing}." in answer.json()["detail"]


def test_the_same_time_and_references_written_otherwise_are_the_same_event(service, alice):
    first = {"occurred_at": "2026-01-31T12:00:00Z", "references": ["a", "b"]}
    second = {"occurred_at": "2026-01-31T13:00:00+01:00", "references": ["b", "a"]}

    answers = [post(service, event_of(alice, idempotency_key="k", **fields)) for fields in (first, second)]

    assert answers[0].json() == answers[1].json()
    assert [answer.status_code for answer in answers] == [202, 202]


@pytest.mark.parametrize("pattern", ["alice", " {}", "0{}", "{}\n"], ids=["name", "space", "zero", "newline"])
def test_an_owner_is_named_by_its_primary_key_only(service, alice, pattern):
    answer = post(service, {**event_of(alice), "owner": pattern.format(alice.pk)})

    assert answer.status_code == 400
    assert "is not a primary key of auth.User. Send the owner's primary key" in answer.json()["errors"]["owner"][0]
    assert Event.objects.count() == 0


@pytest.mark.parametrize("number", [0, 101])
def test_a_batch_has_1_to_100_events(service, alice, number):
    assert post(service, {"events": [event_of(alice)] * number}).status_code == 400


def test_a_hundred_events_are_recorded(service, alice):
    assert post(service, {"events": [event_of(alice)] * 100}).status_code == 202
    assert Event.objects.count() == 100


def test_a_repeated_key_returns_the_same_event(service, alice):
    first, again = (post(service, event_of(alice), **{"Idempotency-Key": "order-1"}) for _ in range(2))

    assert (first.status_code, again.status_code) == (202, 202)
    assert first.json() == again.json()
    assert Event.objects.count() == 1


def test_other_data_under_the_same_key_is_a_conflict(service, alice):
    first = post(service, event_of(alice), **{"Idempotency-Key": "order-1"}).json()

    answer = post(service, event_of(alice, "Other"), **{"Idempotency-Key": "order-1"})

    assert (answer.status_code, answer.headers["content-type"]) == (409, PROBLEM)
    assert first["id"] in answer.json()["detail"]


def test_a_key_covers_each_event_of_a_batch(service, alice):
    batch = {"events": [event_of(alice, "a"), event_of(alice, "b")]}

    first, again = (post(service, batch, **{"Idempotency-Key": "batch-1"}) for _ in range(2))

    assert first.json() == again.json()
    assert Event.objects.count() == 2


def test_a_conflict_in_a_batch_has_its_index(service, alice):
    post(service, event_of(alice, "a", idempotency_key="k"))

    answer = post(service, {"events": [event_of(alice, "b"), event_of(alice, "c", idempotency_key="k")]})

    assert answer.status_code == 409
    assert list(answer.json()["errors"]) == ["events[1].idempotency_key"]
    assert Event.objects.count() == 1


def test_a_key_in_the_header_and_in_the_body_is_refused(service, alice):
    answer = post(service, event_of(alice, idempotency_key="a"), **{"Idempotency-Key": "b"})

    assert answer.status_code == 400


def test_an_owners_key_cannot_emit(api, alice):
    answer = post(api, event_of(alice))

    assert (answer.status_code, Event.objects.count()) == (403, 0)
    assert answer.json()["detail"] == "This requires a service key, with the scope events:emit."


def test_a_user_without_a_key_cannot_emit(alice):
    caller = ApiCaller(account=alice, owner=alice)

    assert not caller.holds(EMIT_EVENT)
    with pytest.raises(PermissionDenied):
        emit_events([NewEvent(EVENT_TYPE, {"error": "a"}, owner=alice)], actor=caller)


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/v1/webhooks"), ("GET", "/v1/events"), ("POST", "/v1/webhooks"), ("GET", "/v1/event-types")],
)
def test_a_service_key_has_no_other_rights(service, method, path):
    assert service.call(method, path, {} if method == "POST" else None).status_code == 403


def test_the_scope_requires_a_key_without_an_owner(alice):
    with pytest.raises(ValidationError, match="Only a service key"):
        ApiKey.objects.make(owner=alice, scopes=["events:emit"])
    with pytest.raises(ValidationError, match="its only scope is events:emit"):
        ApiKey.objects.make(owner=None)


def test_service_keys_have_their_own_rate_limit(service, alice, settings):
    settings.WEBHOOKS_API_RATE, settings.WEBHOOKS_EMIT_RATE = "1/min", "2/min"

    assert [post(service, event_of(alice)).status_code for _ in range(3)] == [202, 202, 429]


def test_the_largest_event_is_accepted_and_a_larger_body_refused(service, alice):
    assert post(service, event_of(alice, "x" * (256 * 1024 - 200))).status_code == 202
    assert post(service, event_of(alice, "x" * 1024 * 1024)).status_code == 413


@pytest.mark.parametrize("owner", ["99999999999999999999999999", "0", "", "x" * 300])
def test_an_owner_that_does_not_exist_is_an_error(service, owner):
    answer = post(service, {**event_of(None), "owner": owner})

    assert answer.status_code == 400
    assert list(answer.json()["errors"]) == ["owner"]
