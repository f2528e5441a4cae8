"""Pages, filters, and their number of queries."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from tests.support.rows import EVENT_TYPE, emit_one, make_older, make_webhook, unverified
from tests.support.waiting import wait_for_next_millisecond
from webhooks_app import emit, send_test_event
from webhooks_app.models import Delivery, DeliveryAttempt, Event
from webhooks_app.operations.actors import PROJECT
from webhooks_app.operations.lifecycle import start_verification
from webhooks_app.protocol.ids import new_id

pytestmark = pytest.mark.django_db


def ids(answer):
    assert answer.status_code == 200, answer.text
    return [record["id"] for record in answer.json()["results"]]


@pytest.fixture
def events(alice):
    """Five events, the newest first."""
    return [emit_one(alice).id for _ in range(5)][::-1]


def digits_of(identifier):
    return identifier.partition("_")[2]


def walk(api, path, link):
    pages = []
    while path:
        answer = api.call("GET", path)
        pages.append(ids(answer))
        path = answer.json()[link]
    return pages


def test_next_links_lead_from_the_newest_to_the_oldest(api, events):
    events = sorted(events, reverse=True)

    assert walk(api, "/v1/events?limit=2", "next") == [events[:2], events[2:4], events[4:]]


def test_previous_links_lead_back(api, events):
    events = sorted(events, reverse=True)
    last = api.call("GET", f"/v1/events?limit=2&cursor=after.{digits_of(events[3])}")

    assert walk(api, last.json()["previous"], "previous") == [events[2:4], events[:2]]


def test_a_full_last_page_has_no_next_link(api, events):
    assert [len(page) for page in walk(api, "/v1/events?limit=5", "next")] == [5]


def test_a_new_row_does_not_shift_pages(api, alice, events):
    first = api.call("GET", "/v1/events?limit=2")
    emit_one(alice)

    assert ids(api.call("GET", first.json()["next"])) == sorted(events, reverse=True)[2:4]


def test_a_deleted_row_does_not_shift_pages(api, events):
    events = sorted(events, reverse=True)
    first = api.call("GET", "/v1/events?limit=2")
    Event.objects.filter(pk=events[1]).delete()

    assert ids(api.call("GET", first.json()["next"])) == events[2:4]


def test_links_contain_the_filters(api, alice, events):
    emit("file.deleted", {"file_id": "file_1", "user_id": "user_1", "filename": "x"}, owner=alice)

    pages = walk(api, f"/v1/events?limit=2&type={EVENT_TYPE}", "next")

    assert [event_id for page in pages for event_id in page] == sorted(events, reverse=True)


@pytest.mark.parametrize("limit", ["3", "03", "4"])
def test_a_page_has_the_requested_size(api, events, limit):
    assert len(ids(api.call("GET", f"/v1/events?limit={limit}"))) == int(limit)


@pytest.mark.parametrize(
    ("limit", "held"),
    [(None, 50), ("200", 200), ("201", 200), ("100000000", 200), ("9" * 5000, 200), ("0" * 5000 + "7", 7)],
    ids=["default", "most", "more", "10^8", "5,000 digits", "5,000 zeros"],
)
def test_a_page_has_50_rows_by_default_and_at_most_200(api, alice, limit, held):
    now = timezone.now()
    Event.objects.bulk_create(Event(type="x.y", owner=alice, body="{}", created_at=now) for _ in range(205))

    assert len(ids(api.call("GET", "/v1/events" + (f"?limit={limit}" if limit else "")))) == held


BAD_QUERIES = [
    pytest.param("events", "limit=0", "limit", id="no rows"),
    pytest.param("events", "limit=-1", "limit", id="negative"),
    pytest.param("events", "limit=1e3", "limit", id="exponent"),
    pytest.param("events", "limit=", "limit", id="empty limit"),
    pytest.param("events", "limit=%D9%A5", "limit", id="arabic digit"),
    pytest.param("events", "limit=5%0A", "limit", id="newline"),
    pytest.param("events", "cursor=", "cursor", id="empty cursor"),
    pytest.param("events", "cursor=x", "cursor", id="forged cursor"),
    pytest.param("events", "cursor=after.", "cursor", id="cursor without position"),
    pytest.param("events", "cursor=after.evt_" + "0" * 32, "cursor", id="cursor with an identifier"),
    pytest.param("events", "cursor=up." + "0" * 32, "cursor", id="cursor of no direction"),
    pytest.param("events", "cursor=" + "0" * 32, "cursor", id="position alone"),
    pytest.param("events", "cursor=after." + "0" * 32 + "%0A", "cursor", id="cursor and newline"),
    pytest.param("events", "cursor=cD0yMDI2LTAxLTMx", "cursor", id="base64"),
    pytest.param("events", "cursor=%00", "cursor", id="NUL in the cursor"),
    pytest.param("events", "cursor=%FF", "cursor", id="not UTF-8"),
    pytest.param("events", "name=%00", "name", id="NUL in a parameter that nothing reads"),
    pytest.param("events", "%00=1", "\\0", id="NUL in a name"),
    pytest.param("events", "type=%00", "type", id="NUL in a filter"),
    pytest.param("events", "type=", "type", id="empty filter"),
    pytest.param("events", "created_after=", "created_after", id="empty time"),
    pytest.param("webhooks", "status=", "status", id="empty status"),
    pytest.param("events", "test=maybe", "test", id="neither true nor false"),
    pytest.param("events", "created_after=yesterday", "created_after", id="no time"),
    pytest.param("events", "created_after=2026-01-31T12:00:00", "created_after", id="time without offset"),
    pytest.param("events", "created_before=0001-01-01T00:00:00%2B14:00", "created_before", id="before year 1"),
    pytest.param("events", "created_before=9999-12-31T23:59:59-14:00", "created_before", id="after year 9999"),
    pytest.param("events", "created_before=2026-02-30T00:00:00Z", "created_before", id="no such day"),
    pytest.param("webhooks", "status=sleeping", "status", id="unknown status"),
    pytest.param("deliveries", "answer=6xx", "answer", id="no class of statuses"),
    pytest.param("deliveries", "kind=all", "kind", id="a choice of pages"),
]


@pytest.mark.parametrize(("name", "query", "field"), BAD_QUERIES)
def test_an_invalid_query_is_refused(api, name, query, field):
    answer = api.call("GET", f"/v1/{name}?{query}")

    assert answer.status_code == 400
    assert list(answer.json()["errors"]) == [field]


def test_an_empty_period_has_no_rows(api, alice):
    emit_one(alice)
    period = "recorded_after=2026-01-31T12:00:00Z&recorded_before=2026-01-31T12:00:00Z"

    assert api.call("GET", f"/v1/events?{period}").json()["results"] == []


def test_a_query_is_checked_on_every_route(api, alice):
    webhook = make_webhook(alice)

    answers = [
        api.call("GET", f"/v1/webhooks/{webhook.id}?x=%00"),
        api.call("POST", f"/v1/webhooks/{webhook.id}/disable?x=%00"),
        api.call("GET", "/v1/event-types?x=%00"),
    ]

    assert [answer.status_code for answer in answers] == [400, 400, 400]


def test_an_unknown_parameter_is_refused_with_the_nearest_one(api):
    answer = api.call("GET", "/v1/events?typ=file.deleted&page=7")

    assert answer.status_code == 400
    assert answer.json()["errors"] == {
        "typ": ["Unknown parameter. Did you mean type?"],
        "page": [
            (
                "Unknown parameter. Known parameters: created_after, created_before, cursor, limit, recorded_after, "
                "recorded_before, reference, test, type."
            )
        ],
    }


@pytest.mark.parametrize("path", ["/v1/webhooks/choices", "/v1/event-types", "/v1/webhooks/{id}"])
def test_other_operations_have_no_parameters(api, alice, path):
    answer = api.call("GET", path.format(id=make_webhook(alice).id) + "?limit=5")

    assert answer.status_code == 400
    assert answer.json()["errors"] == {"limit": ["No parameters are expected here."]}


def test_webhooks_are_filtered_by_status(api, alice):
    active, failed = make_webhook(alice), make_webhook(alice, status="failed")

    assert ids(api.call("GET", "/v1/webhooks?status=failed")) == [failed.id]
    assert ids(api.call("GET", "/v1/webhooks?status=active")) == [active.id]


def test_webhooks_are_filtered_by_event_type(api, alice):
    both = make_webhook(alice, "file.uploaded", "file.deleted")
    make_webhook(alice, "file.deleted")

    assert ids(api.call("GET", "/v1/webhooks?event_type=file.uploaded")) == [both.id]
    assert ids(api.call("GET", "/v1/webhooks?event_type=file.upload")) == []
    assert ids(api.call("GET", "/v1/webhooks?event_type=%25")) == []


def test_events_are_filtered_by_type_and_test(api, alice):
    real = emit_one(alice)
    test = send_test_event(make_webhook(alice), "file.deleted").event

    assert ids(api.call("GET", f"/v1/events?type={EVENT_TYPE}")) == [real.id]
    assert ids(api.call("GET", "/v1/events?test=true")) == [test.id]
    assert ids(api.call("GET", "/v1/events?test=false")) == [real.id]


def test_events_are_filtered_by_time_of_occurrence(api, alice):
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    old, new = [
        emit(EVENT_TYPE, {"error": "x"}, owner=alice, occurred_at=noon + timedelta(hours=hours)) for hours in (0, 1)
    ]

    assert ids(api.call("GET", "/v1/events?created_after=2026-01-31T13:00:00Z")) == [new.id]
    assert ids(api.call("GET", "/v1/events?created_before=2026-01-31T14:00:00%2B01:00")) == [old.id]
    assert len(ids(api.call("GET", "/v1/events?created_after=2026-01-31T12:00:00Z"))) == 2


def test_deliveries_are_filtered(api, alice):
    webhook = make_webhook(alice)
    event = emit_one(alice)
    test = send_test_event(webhook, "file.deleted")
    verification = start_verification(unverified(webhook), actor=PROJECT)
    event = make_older(event, timedelta(days=2))
    Delivery.objects.filter(event=event).update(state="succeeded")
    real = Delivery.objects.get(event=event)
    yesterday = (timezone.now() - timedelta(days=1)).isoformat().replace("+", "%2B")

    def found(query):
        return ids(api.call("GET", f"/v1/webhooks/{webhook.id}/deliveries?{query}"))

    assert found("state=succeeded") == [real.id]
    assert found("kind=test") == [test.id]
    assert found("event_type=file.deleted") == [test.id]
    assert found("event_type=webhook.verification") == [verification.id]
    assert found(f"event_id={event.id}") == [real.id]
    assert found("event_id=nonsense") == []
    assert found(f"created_before={yesterday}") == [real.id]
    assert set(found(f"created_after={yesterday}")) == {test.id, verification.id}
    assert found("kind=event&state=pending") == []


def test_the_deliveries_of_all_webhooks_are_listed_and_filtered(api, alice):
    first, second = make_webhook(alice), make_webhook(alice)
    make_webhook(None)
    emit_one(alice)
    one, two = (first.deliveries.get(), second.deliveries.get())
    Delivery.objects.filter(pk=one.pk).update(state="given_up", last_result="timeout")

    assert set(ids(api.call("GET", "/v1/deliveries"))) == {one.id, two.id}
    assert ids(api.call("GET", f"/v1/deliveries?webhook_id={second.id}")) == [two.id]
    assert ids(api.call("GET", "/v1/deliveries?result=timeout&state=given_up")) == [one.id]
    assert ids(api.call("GET", "/v1/deliveries?result=tls_error")) == []
    assert api.call("GET", "/v1/deliveries?result=anything").status_code == 400


@pytest.mark.parametrize("rows", [2, 49])
def test_the_queries_of_a_list_do_not_grow_with_it(api, alice, rows, django_assert_num_queries):
    webhook = make_webhook(alice)
    for _ in range(rows):
        make_webhook(alice, "file.deleted")
        emit_one(alice)
    api.call("GET", "/v1/webhooks")  # the first use of a key in a minute is recorded

    lists = {
        "webhooks": 6,  # one for the signing keys, and two for their health
        "webhooks?status=active": 7,
        "events": 3,
        f"events?type={EVENT_TYPE}": 4,
        "deliveries": 5,  # one for the requests in flight of due deliveries' webhooks
        "deliveries?kind=event": 6,
        f"deliveries?webhook_id={webhook.id}": 5,
        f"webhooks/{webhook.id}/deliveries": 5,
        f"webhooks/{webhook.id}/deliveries?kind=event": 6,
    }
    for path, queries in lists.items():
        with django_assert_num_queries(queries):
            assert len(ids(api.call("GET", f"/v1/{path}{'&' if '?' in path else '?'}limit=200"))) >= rows


def rows_of(webhook, count, **fields):
    """Insert deliveries of one event, and return their ids, the newest first."""
    event = emit_one(None)
    made = [Delivery(event=event, webhook=webhook, **fields) for _ in range(count)]
    Delivery.objects.bulk_create(made)
    return sorted((delivery.pk for delivery in made), reverse=True)


@pytest.fixture
def horizon_of_20(monkeypatch):
    monkeypatch.setattr("webhooks_app.pages.listing.HORIZON", 20)


def test_a_filter_without_an_index_scans_a_limited_number_of_rows(api, alice, horizon_of_20):
    webhook = make_webhook(alice)
    old = rows_of(webhook, 3, last_result="timeout")
    rows_of(webhook, 30)
    new = rows_of(webhook, 1, last_result="timeout")

    assert walk(api, "/v1/deliveries?result=timeout&limit=2", "next") == [new, old[:2], old[2:]]


def test_previous_links_scan_a_limited_number_of_rows_too(api, alice, horizon_of_20):
    webhook = make_webhook(alice)
    # Distant times, because the clock of a virtual machine may be set back.
    earlier, later = (new_id("dlv", timezone.now() + timedelta(seconds=seconds)) for seconds in (-5, 5))
    old = rows_of(webhook, 1, id=earlier, last_result="timeout")
    rows_of(webhook, 30)
    new = rows_of(webhook, 1, id=later, last_result="timeout")

    pages = walk(api, f"/v1/deliveries?result=timeout&limit=2&cursor=before.{digits_of(old[0])}", "previous")

    assert pages == [[], new]


@pytest.mark.only_on("sqlite", "postgresql")
def test_failed_deliveries_are_found_at_any_age(api, alice, horizon_of_20):
    webhook = make_webhook(alice)
    old = rows_of(webhook, 1, state="given_up")
    rows_of(webhook, 30, state="cancelled")

    for path in ("/v1/deliveries", f"/v1/webhooks/{webhook.id}/deliveries"):
        assert ids(api.call("GET", f"{path}?state=given_up")) == old


def test_deliveries_of_too_many_webhooks_are_searched_among_all_rows(api, alice, bob, horizon_of_20, monkeypatch):
    monkeypatch.setattr("webhooks_app.models.keyset.MAX_PARTS", 1)
    mine = rows_of(make_webhook(alice), 1) + rows_of(make_webhook(alice), 1)
    theirs = rows_of(make_webhook(bob), 30)

    first = api.call("GET", "/v1/deliveries")

    assert ids(first) == []
    assert not any(digits_of(each) in first.text for each in theirs)
    assert ids(api.call("GET", first.json()["next"])) == sorted(mine, reverse=True)


@pytest.mark.parametrize("attempts", [1, 4])
def test_the_queries_of_a_delivery_do_not_grow_with_its_attempts(api, alice, attempts, django_assert_num_queries):
    make_webhook(alice)
    emit_one(alice)
    delivery = Delivery.objects.get()
    DeliveryAttempt.objects.bulk_create(
        DeliveryAttempt(delivery=delivery, number=number, result="timeout", started_at=timezone.now(), url="x")
        for number in range(attempts)
    )
    api.call("GET", "/v1/webhooks")

    with django_assert_num_queries(4):
        assert len(api.call("GET", f"/v1/deliveries/{delivery.id}").json()["attempts"]) == attempts


def test_a_list_reads_only_the_columns_that_it_shows(api, alice, django_assert_num_queries):
    webhook = make_webhook(alice)
    emit_one(alice)
    api.call("GET", "/v1/webhooks")

    for path, number in {"events": 3, "deliveries": 5, f"webhooks/{webhook.id}/deliveries": 5}.items():
        with django_assert_num_queries(number) as queries:
            api.call("GET", f"/v1/{path}")
        assert not any('"body"' in query["sql"].replace("`", '"') for query in queries)


def test_events_of_types_that_the_policy_hides_are_not_listed(api, alice, settings):
    settings.WEBHOOKS_OWNERS = "tests.portal.conftest.WithoutFailures"
    hidden, shown = (
        Event.objects.create(type=name, owner=alice, created_at=timezone.now())
        for name in ("ppt.generation.failed", "file.deleted")
    )

    assert ids(api.call("GET", "/v1/events")) == [shown.pk]
    assert api.call("GET", f"/v1/events/{hidden.pk}").status_code == 404


def test_newer_events_of_others_with_the_same_reference_hide_no_own_ones(api, alice, bob, monkeypatch):
    monkeypatch.setattr("webhooks_app.models.event.MAX_FOUND", 1)
    make_webhook(alice)
    own = emit(EVENT_TYPE, {"error": "a"}, owner=alice, references=["order_1"])
    wait_for_next_millisecond()
    emit(EVENT_TYPE, {"error": "a"}, owner=bob, references=["order_1"])

    assert ids(api.call("GET", "/v1/deliveries?reference=order_1")) == [own.deliveries.get().pk]
