"""Pages and lists of deliveries and events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import quote
from django.contrib.auth import get_user_model
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from tests.support.plans import rows_read, update_statistics
from tests.support.reading import cells, named, words
from tests.support.rows import emit_one, end_deliveries, make_webhook
from webhooks_app.emission import emit
from webhooks_app.models import Delivery, DeliveryAttempt, Event, QueueEntry, Webhook
from webhooks_app.protocol.ids import new_id

from .conftest import DATA, Page, shown_messages, shows, text

HOSTILE = "<script>alert(1)</script>\x1b[2J"


@pytest.fixture
def attempt(delivery: Delivery) -> DeliveryAttempt:
    return DeliveryAttempt.objects.create(
        delivery=delivery,
        number=1,
        result=DeliveryAttempt.Result.HTTP_STATUS,
        message="Answered with status 500.",
        started_at=timezone.now(),
        duration_ms=12,
        url=delivery.webhook.url,
        response_status=500,
        response_headers=[["X-Evil", HOSTILE]],
        response_body=HOSTILE,
        retry_after=HOSTILE,
    )


def test_the_body_of_an_event_is_indented_and_escaped(superuser: Page, event: Event) -> None:
    page = text(superuser.get("event", "change", event.pk))

    assert "&quot;id&quot;: &quot;" + event.pk in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;.pdf" in page
    assert "<script>alert" not in page


def test_the_page_of_an_event_has_its_timeline_as_a_chart_and_as_a_table(
    superuser: Page, attempt: DeliveryAttempt
) -> None:
    page = text(superuser.get("event", "change", str(attempt.delivery.event_id)))

    assert 'aria-labelledby="webhooks-timeline-title"' in page
    assert page.count(f"/admin/webhooks_app/delivery/{attempt.delivery_id}/change/") >= 2
    assert "Attempt 1: status 500, 12\xa0ms" in page


@pytest.mark.only_on("postgresql")
@pytest.mark.usefixtures("new_tables")
def test_the_page_of_an_event_with_many_webhooks_reads_a_bounded_number_of_rows(
    superuser: Page, event: Event, new_webhook: Any
) -> None:
    template = new_webhook(None)
    names = [field.attname for field in Webhook._meta.concrete_fields if field.attname != "id"]
    values = {name: getattr(template, name) for name in names}
    webhooks = Webhook.objects.bulk_create([Webhook(**values) for _ in range(11_000)], batch_size=1000)
    new = [Delivery(event=event, webhook=webhook, state="given_up") for webhook in webhooks]
    Delivery.objects.bulk_create(new, batch_size=1000)
    address = reverse("admin:webhooks_app_event_change", args=[event.pk])
    update_statistics()

    assert rows_read(lambda: superuser.client.get(address)) < 10_000


def test_a_pruned_body_has_a_note(superuser: Page, event: Event) -> None:
    Event.objects.update(body="")

    assert shows(superuser.get("event", "change", event.pk), "No longer stored.")


def test_an_event_has_no_link_to_an_empty_history(superuser: Page, event: Event) -> None:
    assert ">History</a>" not in text(superuser.get("event", "change", event.pk))


@pytest.mark.parametrize("model", ["delivery", "event"])
def test_history_shows_the_url_that_was_asked(superuser: Page, attempt: DeliveryAttempt, model: str) -> None:
    old, new = attempt.url, "https://receiver.example.com/moved"
    Delivery.objects.update(attempt_count=1)
    Webhook.objects.update(url=new)

    if model == "delivery":
        (row,) = superuser.get("delivery").context["cl"].result_list
        page = text(superuser.get("delivery", "change", row.pk))
        assert row.last_attempt.url == old
        assert shows(superuser.get("delivery"), old)
        assert not shows(superuser.get("delivery"), new)
        assert old in words(named(page, "Attempt 1: status 500"))
        assert f"(now {new})" in page
    else:
        (recipient,) = superuser.get("event", "change", str(attempt.delivery.event_id)).context["recipients"]
        assert recipient.sent_to == old


def test_a_delivery_without_an_attempt_shows_the_url_of_its_webhook(superuser: Page, delivery: Delivery) -> None:
    assert shows(superuser.get("delivery"), delivery.webhook.url)


def test_an_attempt_without_a_response_shows_the_first_bytes_received(
    superuser: Page, attempt: DeliveryAttempt
) -> None:
    DeliveryAttempt.objects.update(response_status=None, response_headers=[], response_body="SSH-2.0-OpenSSH_9.2p1")

    page = superuser.get("delivery", "change", attempt.delivery.pk)

    assert shows(page, "No HTTP response. First bytes received:")
    assert shows(page, "SSH-2.0-OpenSSH_9.2p1")


def test_a_delivery_shows_its_attempts(superuser: Page, attempt: DeliveryAttempt) -> None:
    page = superuser.get("delivery", "change", attempt.delivery.pk)

    for shown in ("Answered with status 500.", "status 500", "X-Evil", HOSTILE):
        assert shows(page, shown)
    assert "<script>alert" not in text(page)


@pytest.mark.parametrize(
    ("result", "peer", "is_sent"),
    [
        ("http_status", "192.0.2.1", True),
        ("timeout", "192.0.2.1", True),
        ("timeout", "", False),
        ("connection_error", "", False),
        ("dns_error", "", False),
    ],
)
def test_an_attempt_without_a_connection_is_shown_as_not_sent(
    superuser: Page, attempt: DeliveryAttempt, result: str, peer: str, is_sent: bool
) -> None:
    DeliveryAttempt.objects.update(result=result, peer=peer, timestamp=1_769_860_800)

    page = superuser.get("delivery", "change", attempt.delivery.pk)

    assert shows(page, "Not sent: no connection") is not is_sent


@pytest.mark.parametrize(
    ("timings", "expected"),
    [
        pytest.param({"dns": 5, "connect": 12, "tls": 30, "first_byte": 42}, [5, 7, 18, 12, 8], id="all of it"),
        pytest.param({"dns": 5, "connect": 12}, [5, 7], id="no answer"),
    ],
)
def test_the_time_of_an_attempt_is_split_into_stages(
    superuser: Page, attempt: DeliveryAttempt, timings: dict[str, int], expected: list[int]
) -> None:
    DeliveryAttempt.objects.update(timings=timings, duration_ms=50)

    [shown] = superuser.get("delivery", "change", attempt.delivery.pk).context["attempts"]

    assert [stage.milliseconds for stage in shown.stages] == expected


def test_a_delivery_awaiting_verification_is_held(superuser: Page, delivery: Delivery) -> None:
    delivery.webhook.await_verification()

    assert shows(superuser.get("delivery"), "waiting for verification")


def test_a_redelivery_has_the_same_event_and_its_requester(superuser: Page, delivery: Delivery) -> None:
    end_deliveries(state=Delivery.State.GIVEN_UP)

    answer = superuser.act("redeliver", delivery, confirmed=True)

    again = Delivery.objects.get(redelivery_of=delivery)
    assert (again.event, again.requested_by, again.state) == (delivery.event, superuser.user, Delivery.State.PENDING)
    assert shown_messages(answer) == ["Redelivered the event."]
    assert answer.redirect_chain[-1][0].endswith(f"/delivery/{quote(again.pk)}/change/")
    assert LogEntry.objects.get().object_id == delivery.pk


def test_a_redelivery_links_to_the_first_delivery_even_if_that_is_missing(superuser: Page, delivery: Delivery) -> None:
    first = new_id("dlv")
    Delivery.objects.filter(pk=delivery.pk).update(redelivery_of=first)

    assert f"{first}</a>" in text(superuser.get("delivery", "change", delivery.pk))


def test_selected_deliveries_are_redelivered_in_the_order_of_their_events(superuser: Page) -> None:
    make_webhook(superuser.user, order="webhook", retry_notices=False)
    events = [emit_one(superuser.user).pk for _ in range(10)]
    end_deliveries(state=Delivery.State.GIVEN_UP)

    superuser.act("redeliver", *Delivery.objects.all(), confirmed=True)

    assert list(QueueEntry.objects.order_by("place").values_list("event", flat=True)) == events


def test_only_users_who_manage_all_see_the_requester_of_a_redelivery(
    superuser: Page, staff: Any, new_webhook: Any
) -> None:
    amina = staff("amina", "view_delivery")
    new_webhook(amina.user)
    emit("file.deleted", DATA, owner=amina.user)
    end_deliveries(state=Delivery.State.GIVEN_UP)
    again = Delivery.objects.get().redeliver(get_user_model().objects.create_user("magda"))

    assert "magda" in text(superuser.get("delivery", "change", again.pk))
    assert "magda" not in text(amina.get("delivery", "change", again.pk))


def test_a_redelivery_to_a_disabled_webhook_is_refused_with_the_reason(superuser: Page, delivery: Delivery) -> None:
    end_deliveries(state=Delivery.State.GIVEN_UP)
    delivery.webhook.disable("no longer wanted")

    answer = superuser.act("redeliver", delivery, confirmed=True)

    assert any("no longer wanted" in message for message in shown_messages(answer))
    assert Delivery.objects.count() == 1


def test_redelivery_needs_a_permission(staff: Any, new_webhook: Any) -> None:
    page = staff("berta", "view_delivery", "change_webhook", "test_webhook")
    new_webhook(page.user)
    delivery = emit("file.deleted", DATA, owner=page.user).deliveries.get()
    end_deliveries(state=Delivery.State.GIVEN_UP)

    page.act("redeliver", delivery, confirmed=True)

    assert Delivery.objects.count() == 1


def test_a_permission_to_view_deliveries_shows_their_attempts(staff: Any, attempt: DeliveryAttempt, owner: Any) -> None:
    page = staff("berta", "view_delivery", "manage_all_webhooks")

    assert shows(page.get("delivery", "change", attempt.delivery.pk), "Answered with status 500.")


@pytest.mark.parametrize("identifier", ["delivery", "event", "webhook"])
def test_deliveries_are_found_by_id(superuser: Page, delivery: Delivery, identifier: str) -> None:
    ids = {"delivery": delivery.pk, "event": delivery.event_id, "webhook": delivery.webhook_id}

    found = superuser.get("delivery", q=ids[identifier]).context["cl"].result_list
    assert [row.pk for row in found] == [delivery.pk]


@pytest.mark.parametrize("query", [{"event_type": "file.deleted"}, {"state": "pending"}, {"kind": "event"}])
def test_deliveries_are_filtered(superuser: Page, delivery: Delivery, query: dict[str, str]) -> None:
    other = {name: "ppt.edit.failed" if name == "event_type" else "test" for name in query}

    assert superuser.get("delivery", **query).context["cl"].result_count == 1
    if "state" not in query:
        assert superuser.get("delivery", **other).context["cl"].result_count == 0


@pytest.mark.parametrize("model", ["event", "delivery", "webhook", "apikey"])
def test_facet_counts_are_unavailable(superuser: Page, delivery: Delivery, model: str) -> None:
    assert not superuser.get(model, _facets="1").context["cl"].add_facets


def test_the_list_of_deliveries_does_not_read_the_bodies(superuser: Page, delivery: Delivery) -> None:
    with CaptureQueriesContext(connection) as queries:
        superuser.get("delivery")

    assert not any("body" in query["sql"] for query in queries)


def test_a_delivery_held_by_the_order_links_to_the_one_before_it(superuser: Page, delivery: Delivery) -> None:
    Webhook.objects.update(order="webhook")
    first, second = (emit("file.deleted", DATA, owner=delivery.webhook.owner).deliveries.get() for _ in range(2))

    page = text(superuser.get("delivery", "change", second.pk))

    link = reverse("admin:webhooks_app_delivery_change", args=(first.pk,))
    assert f'Waiting for an earlier delivery, <a href="{link}">{first.pk}</a>, because' in page


def test_a_list_links_a_held_delivery_to_the_one_before_it(
    superuser: Page, owner: Any, new_webhook: Callable[..., Webhook]
) -> None:
    webhook = new_webhook(owner, order="webhook")
    first, _second = (emit("file.deleted", DATA, owner=owner).deliveries.get() for _ in range(2))
    link = f'<a href="/admin/webhooks_app/delivery/{first.pk}/change/">behind an earlier delivery</a>'

    assert link in text(superuser.get("delivery"))
    assert link in text(superuser.get("webhook", "change", webhook.pk))


def listed(page: Page, **query: str) -> list[str]:
    return [row.pk for row in page.get("delivery", **query).context["cl"].result_list]


def test_a_row_has_the_answer_and_links_to_webhook_and_event(superuser: Page, attempt: DeliveryAttempt) -> None:
    Delivery.objects.update(attempt_count=1, state="given_up", last_result="http_status")
    delivery = attempt.delivery

    page = text(superuser.get("delivery"))

    assert cells(page, "State") == ["given up: status 500 12 ms"]
    assert cells(page, "Webhook") == [f"{attempt.url} amina"]
    assert reverse("admin:webhooks_app_event_change", args=[delivery.event_id]) in page
    assert reverse("admin:webhooks_app_webhook_change", args=[delivery.webhook_id]) in page


def test_notices_and_verifications_are_hidden_until_they_are_chosen(superuser: Page, delivery: Delivery) -> None:
    kinds = ("test", "retry_notice", "verification")
    test, notice, verification = (Delivery.objects.queue(webhook=delivery.webhook, kind=kind).pk for kind in kinds)

    hidden = superuser.get("delivery")

    assert listed(superuser) == [test, delivery.pk]
    assert shows(hidden, "Notices and verifications are hidden.")
    ((_note, url),) = hidden.context["cl"].hidden
    everything = superuser.client.get(f"/admin/webhooks_app/delivery/{url}")
    assert len(everything.context["cl"].result_list) == 4
    assert not shows(everything, "Notices and verifications are hidden.")
    assert listed(superuser, kind="retry_notice") == [notice]
    assert listed(superuser, q=verification) == [verification]
    assert listed(superuser, event_type="webhook.verification") == [verification]


def test_select_all_takes_only_the_selected_rows(superuser: Page, delivery: Delivery) -> None:
    for kind in ("retry_notice", "test"):
        Delivery.objects.queue(webhook=delivery.webhook, kind=kind, event=delivery.event)
    end_deliveries(state=Delivery.State.GIVEN_UP)

    superuser.act("redeliver", delivery, confirmed=True, select_across="1")

    found = Delivery.objects.exclude(redelivery_of=None).values_list("redelivery_of", flat=True)
    assert list(found) == [delivery.pk]


def test_an_action_says_why_a_row_that_a_filter_no_longer_finds_is_refused(superuser: Page, delivery: Delivery) -> None:
    url = f"{reverse('admin:webhooks_app_delivery_changelist')}?state=given_up"
    form = {"action": "redeliver", "_selected_action": delivery.pk, "confirmed": "yes"}

    answer = superuser.client.post(url, form, follow=True)

    (message,) = shown_messages(answer)
    assert "pending" in message
    assert not Delivery.objects.exclude(redelivery_of=None)


@pytest.mark.parametrize(
    ("answer", "found"),
    [("500", True), ("503", False), ("5xx", True), ("4xx", False), ("timeout", False), ("6xx", False), ("x", False)],
)
def test_the_answer_is_a_filter(superuser: Page, attempt: DeliveryAttempt, answer: str, found: bool) -> None:
    Delivery.objects.update(attempt_count=1, state="given_up", last_result="http_status")

    assert listed(superuser, answer=answer) == ([attempt.delivery_id] if found else [])


def test_the_answer_to_any_attempt_counts(superuser: Page, attempt: DeliveryAttempt) -> None:
    facts = {"result": "timeout", "started_at": timezone.now(), "url": attempt.url}
    DeliveryAttempt.objects.create(delivery=attempt.delivery, number=2, **facts)
    Delivery.objects.update(attempt_count=2, state="given_up", last_result="timeout")

    assert listed(superuser, answer="500") == listed(superuser, answer="timeout") == [attempt.delivery_id]


def test_a_day_fills_in_the_times_for_changes(superuser: Page, delivery: Delivery, settings: Any) -> None:
    settings.TIME_ZONE = "Europe/Berlin"
    page = superuser.get("delivery")
    (spec,) = (spec for spec in page.context["cl"].filter_specs if spec.title == "time")
    links = {str(choice["display"]): choice["query_string"] for choice in spec.choices(page.context["cl"])}

    today, yesterday = (
        superuser.client.get(f"/admin/webhooks_app/delivery/{links[day]}") for day in ("Today", "Yesterday")
    )

    start = timezone.localtime().strftime("%Y-%m-%dT00:00:00")
    assert f'name="created_after" value="{start}"' in text(today)
    assert f'name="created_before" value="{start}"' in text(yesterday)
    assert [len(page.context["cl"].result_list) for page in (today, yesterday)] == [1, 0]
    (spec,) = (spec for spec in today.context["cl"].filter_specs if spec.title == "time")
    assert [choice["display"] for choice in spec.choices(today.context["cl"]) if choice["selected"]] == ["Today"]


def test_the_list_of_events_counts_the_webhooks_that_received_each(
    superuser: Page, event: Event, delivery: Delivery, new_webhook: Callable[..., Webhook]
) -> None:
    others = [new_webhook(None) for _ in range(2)]
    made = [Delivery(event=event, webhook=webhook, state="succeeded") for webhook in others]
    again = Delivery(event=event, webhook=others[0], state="given_up", redelivery_of=made[0])
    Delivery.objects.bulk_create([*made, again])

    assert "● " not in text(superuser.get("event"))
    assert cells(text(superuser.get("event")), "Delivered") == ["2 of 3 delivered, 1 pending"]
    Delivery.objects.filter(pk=delivery.pk).update(state="given_up")
    assert cells(text(superuser.get("event")), "Delivered") == ["2 of 3 delivered, 1 given up"]


def test_staff_see_how_many_of_their_webhooks_received_an_event(
    staff: Callable[..., Page], new_webhook: Callable[..., Webhook]
) -> None:
    page = staff("boris", "view_event", "view_delivery")
    new_webhook(page.user)
    new_webhook(None)
    emit("file.deleted", DATA, owner=page.user)

    assert "0 of 1 delivered" in text(page.get("event"))


def test_deliveries_are_counted_only_for_users_who_may_view_them(staff: Callable[..., Page], event: Event) -> None:
    page = staff("boris", "view_event", "manage_all_webhooks")

    assert "delivered</span>" not in text(page.get("event"))


def test_a_page_of_events_reads_a_limited_number_of_deliveries(
    superuser: Page, event: Event, delivery: Delivery, new_webhook: Callable[..., Webhook], monkeypatch: Any
) -> None:
    monkeypatch.setattr("webhooks_app.pages.recipients.HORIZON", 2)
    emit("file.deleted", DATA, owner=None)
    Delivery.objects.bulk_create([Delivery(event=event, webhook=new_webhook(None)) for _ in range(3)])

    with CaptureQueriesContext(connection) as captured:
        page = text(superuser.get("event"))

    assert "0 of more than" in page
    assert sum("webhooks_app_delivery" in each["sql"] for each in captured) == 1


def test_an_action_reads_no_page_of_the_list(superuser: Page, delivery: Delivery) -> None:
    end_deliveries(state=Delivery.State.GIVEN_UP, attempt_count=1)

    with CaptureQueriesContext(connection) as queries:
        superuser.act("redeliver", delivery, confirmed=True)
    before, _, after = "\n".join(query["sql"] for query in queries).partition('INSERT INTO "webhooks_app_delivery"')

    assert after
    assert "webhooks_app_deliveryattempt" not in before
