"""Long lists: paging, filters and number of queries."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from webhooks_app.emission import emit
from webhooks_app.models import Delivery, DeliveryAttempt, Event, QueueEntry, Webhook
from webhooks_app.models.keyset import Cursor, read_page
from webhooks_app.protocol.ids import first_id_at

from .conftest import DATA, Page, shows, text

MAX_QUERIES = 10
State, Result = Delivery.State, DeliveryAttempt.Result


@pytest.fixture
def new_deliveries(new_webhook: Callable[..., Webhook]) -> Callable[..., list[str]]:
    """Insert deliveries of one event and return their ids, newest first."""

    def new_deliveries(count: int, webhook: Webhook | None = None, **fields: Any) -> list[str]:
        webhook = webhook or new_webhook(None)
        event = emit("file.deleted", DATA, owner=None)
        event.deliveries.all().delete()
        made = [Delivery(event=event, webhook=webhook, **fields) for _ in range(count)]
        Delivery.objects.bulk_create(made)
        return sorted((delivery.pk for delivery in made), reverse=True)

    return new_deliveries


def listed(page: Any) -> list[str]:
    return [row.pk for row in page.context["cl"].result_list]


def follow(page: Page, answer: Any, link: str) -> Any:
    url = getattr(answer.context["cl"], f"{link}_url")
    assert url, f"there is no link {link}"
    return page.client.get(f"/admin/webhooks_app/delivery/{url}")


def test_pages_lead_to_older_ones_and_back(superuser: Page, new_deliveries: Any) -> None:
    ids = new_deliveries(120)

    first = superuser.get("delivery")
    second = follow(superuser, first, "older")
    third = follow(superuser, second, "older")

    assert [listed(page) for page in (first, second, third)] == [ids[:50], ids[50:100], ids[100:]]
    assert not third.context["cl"].older_url
    assert listed(follow(superuser, third, "newer")) == ids[50:100]
    assert listed(follow(superuser, third, "newest")) == ids[:50]


def test_the_first_page_has_no_newer_one(superuser: Page, new_deliveries: Any) -> None:
    new_deliveries(60)

    first = superuser.get("delivery")
    again = follow(superuser, follow(superuser, first, "older"), "newer")

    assert not first.context["cl"].newer_url
    assert listed(again) == listed(first)


def test_paging_upwards_ends_at_a_full_page(superuser: Page, new_deliveries: Any) -> None:
    ids = new_deliveries(60)
    cursor = f"before.{ids[10].partition('_')[2]}"

    assert listed(superuser.get("delivery", cursor=cursor)) == ids[:50]


def test_links_keep_the_filters_and_a_new_filter_starts_at_the_first_page(superuser: Page, new_deliveries: Any) -> None:
    new_deliveries(120, state=State.GIVEN_UP)

    second = follow(superuser, superuser.get("delivery", state="given_up"), "older")

    assert "state=given_up" in second.context["cl"].older_url
    assert "cursor" not in second.context["cl"].get_query_string({"kind": "test"})


@pytest.mark.parametrize("cursor", ["after.1", "sideways." + "0" * 32, "after." + "g" * 32, "1"])
def test_an_invalid_cursor_is_handled_like_an_invalid_filter(superuser: Page, cursor: str) -> None:
    answer = superuser.get("delivery", cursor=cursor)

    assert answer.redirect_chain == [("/admin/webhooks_app/delivery/?e=1", 302)]


def test_a_filter_examines_a_bounded_number_of_rows_and_shows_a_note(
    superuser: Page, new_deliveries: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (rare,) = new_deliveries(1, last_result=Result.TIMEOUT)
    new_deliveries(30)
    monkeypatch.setattr("webhooks_app.pages.listing.HORIZON", 20)

    near = superuser.get("delivery", result="timeout")
    far = follow(superuser, near, "older")

    assert listed(near) == []
    assert shows(near, "Search older rows")
    assert listed(far) == [rare]
    assert not shows(far, "Search older rows")


@pytest.mark.only_on("sqlite", "postgresql")
@pytest.mark.parametrize("query", [{}, {"q": "other.example"}], ids=["all", "some webhooks'"])
def test_failed_deliveries_are_found_in_a_long_history(
    superuser: Page, new_webhook: Any, new_deliveries: Any, monkeypatch: pytest.MonkeyPatch, query: dict[str, str]
) -> None:
    webhook = new_webhook(None, url="https://other.example/hook")
    rare = new_deliveries(1, webhook, state=State.GIVEN_UP)
    new_deliveries(30, webhook, state=State.CANCELLED)
    monkeypatch.setattr("webhooks_app.pages.listing.HORIZON", 20)

    assert listed(superuser.get("delivery", state="given_up", **query)) == rare


def test_the_last_result_is_a_filter(superuser: Page, new_deliveries: Any) -> None:
    failed = new_deliveries(1, last_result=Result.TLS_ERROR, state=State.GIVEN_UP)
    new_deliveries(1, last_result=Result.TIMEOUT, state=State.GIVEN_UP)

    page = superuser.get("delivery", result="tls_error")

    assert listed(page) == failed
    assert shows(page, "given up: TLS error")


@pytest.mark.parametrize(("created", "expected"), [("hour", "new"), ("month", "both"), ("before_day", "old")])
def test_time_is_a_filter(superuser: Page, new_deliveries: Any, created: str, expected: str) -> None:
    (new,) = new_deliveries(1)
    (old,) = new_deliveries(1)
    aged = first_id_at("dlv", timezone.now() - timedelta(days=2))
    Delivery.objects.filter(pk=old).update(id=aged)

    found = listed(superuser.get("delivery", period=created))

    assert found == {"new": [new], "both": [new, aged], "old": [aged]}[expected]


def test_staff_page_through_the_deliveries_of_all_their_webhooks(
    staff: Callable[..., Page], new_webhook: Any, new_deliveries: Any
) -> None:
    page = staff("berta", "view_delivery")
    mine = new_deliveries(40, new_webhook(page.user)) + new_deliveries(40, new_webhook(page.user))
    new_deliveries(10)

    first = page.get("delivery")
    second = follow(page, first, "older")

    assert listed(first) + listed(second) == sorted(mine, reverse=True)
    assert listed(follow(page, second, "newer")) == listed(first)


def test_filters_of_staff_examine_a_bounded_number_of_rows_per_webhook(
    staff: Callable[..., Page], new_webhook: Any, new_deliveries: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = staff("berta", "view_delivery")
    quiet, busy = new_webhook(page.user), new_webhook(page.user)
    rare = new_deliveries(1, quiet, last_result=Result.TIMEOUT)
    new_deliveries(30, busy)
    monkeypatch.setattr("webhooks_app.pages.listing.HORIZON", 20)

    answer, found = page.get("delivery", result="timeout"), []
    for _ in range(4):
        found += listed(answer)
        if not answer.context["cl"].older_url:
            break
        answer = follow(page, answer, "older")

    assert found == rare


@pytest.mark.parametrize("term", ["berta", "other.example"])
def test_deliveries_are_found_by_account_and_by_url(
    superuser: Page, new_webhook: Any, new_deliveries: Any, term: str
) -> None:
    berta = get_user_model().objects.create_user("berta")
    wanted = new_deliveries(2, new_webhook(berta, url="https://other.example/hook"))
    new_deliveries(2)

    assert listed(superuser.get("delivery", q=term)) == wanted


def test_a_filter_by_too_many_webhooks_examines_a_bounded_number_of_rows(
    staff: Callable[..., Page], new_webhook: Any, new_deliveries: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = staff("berta", "view_delivery")
    mine = new_deliveries(1, new_webhook(page.user))
    new_webhook(page.user)
    new_deliveries(30)
    monkeypatch.setattr("webhooks_app.models.keyset.MAX_PARTS", 1)
    monkeypatch.setattr("webhooks_app.pages.listing.HORIZON", 20)

    near = page.get("delivery")

    assert listed(near) == []
    assert listed(follow(page, near, "older")) == mine


@pytest.mark.parametrize("model", ["delivery", "event"])
def test_a_search_finds_rows_of_every_one_of_too_many_webhooks_and_accounts(
    staff: Callable[..., Page], new_webhook: Any, monkeypatch: pytest.MonkeyPatch, settings: Any, model: str
) -> None:
    settings.WEBHOOKS_OWNERS = "tests.admin.test_owner_search.StaffOwners"
    page, sought = staff("berta", f"view_{model}"), []
    for account in map(get_user_model().objects.create_user, ("customer-1", "customer-2")):
        webhook = new_webhook(account)
        event = emit("file.deleted", DATA, owner=account)
        sought.append(event if model == "event" else Delivery.objects.get(event=event, webhook=webhook))
    monkeypatch.setattr("webhooks_app.models.keyset.MAX_PARTS", 1)
    monkeypatch.setattr("webhooks_app.pages.listing.MAX_PARTS", 1)

    for row in sought:
        assert page.get("webhook", "search", q=row.pk).redirect_chain[-1][0].endswith(f"/{row.pk}/change/")


def test_staff_find_nothing_by_the_id_of_a_foreign_webhook(
    staff: Callable[..., Page], new_webhook: Any, new_deliveries: Any
) -> None:
    page, webhook = staff("berta", "view_delivery"), new_webhook(None)
    new_deliveries(2, webhook)

    with CaptureQueriesContext(connection) as captured:
        assert listed(page.get("delivery", q=webhook.pk)) == []
    assert not any(f"FROM {connection.ops.quote_name('webhooks_app_delivery')}" in each["sql"] for each in captured)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"due_at": timedelta(seconds=29.5)}, "in [123]?[0-9] s"),
        ({"due_at": timedelta(hours=5)}, "in 5 h"),
        ({"due_at": timedelta(seconds=-1)}, "due"),
        ({"claimed_at": timedelta(), "leased_until": timedelta(seconds=9)}, "in flight"),
    ],
)
def test_the_list_shows_the_next_attempt(
    superuser: Page, new_deliveries: Any, fields: dict[str, timedelta], words: str
) -> None:
    (delivery_id,) = new_deliveries(1)
    QueueEntry.objects.add([Delivery.objects.get(pk=delivery_id)])
    QueueEntry.objects.update(**{name: timezone.now() + span for name, span in fields.items()})

    assert re.search(f">{words}<", text(superuser.get("delivery")))


BY_STATE, BY_RESULT = {"state": "given_up"}, {"result": "timeout"}
BY_ANSWER = {"answer": "5xx", "kind": "all"}
BY_TYPE, BY_TIME = {"event_type": "file.deleted"}, {"period": "hour"}
TYPED = {"created_after": "2026-01-01T00:00", "q": "receiver.example"}
FILTERS = {
    "delivery": [{}, BY_STATE, BY_RESULT, BY_ANSWER, BY_TYPE, BY_TIME, TYPED],
    "event": [{}, {"type": "file.deleted"}, BY_TIME],
    "webhook": [{}, BY_TIME],
}


@pytest.mark.parametrize(
    ("model", "query"), [(model, query) for model, queries in FILTERS.items() for query in queries]
)
def test_a_list_costs_the_same_queries_at_2_and_at_200_rows(
    staff: Callable[..., Page], new_webhook: Any, new_deliveries: Any, model: str, query: dict[str, str]
) -> None:
    page = staff("berta", "view_delivery", "view_event", "view_webhook")

    def queries(count: int) -> list[str]:
        for _ in range(count // 2):
            new_deliveries(2, new_webhook(page.user))
        with CaptureQueriesContext(connection) as captured:
            assert page.get(model, **query).status_code == 200
        return [statement["sql"] for statement in captured]

    few, many = queries(2), queries(198)

    assert len(many) <= max(len(few), MAX_QUERIES)
    assert len(few) <= MAX_QUERIES
    assert not any("COUNT(*)" in sql or "DISTINCT" in sql for sql in many)


def test_a_reversed_cursor_starts_with_its_own_row(new_deliveries: Any) -> None:
    ids = new_deliveries(3)
    rows = Delivery.objects.all()

    older = Cursor(False, ids[0].partition("_")[2])

    assert [row.pk for row in read_page(rows, cursor=older, size=5).rows] == ids[1:]
    assert [row.pk for row in read_page(rows, cursor=older.turned(), size=5).rows] == ids
    assert Cursor.parsed(str(older)) == older


def test_events_are_paged_too(superuser: Page) -> None:
    for _ in range(60):
        emit("file.deleted", DATA, owner=superuser.user)

    first = superuser.get("event")

    assert listed(first) == list(Event.objects.order_by("-pk").values_list("pk", flat=True)[:50])
    assert first.context["cl"].older_url
