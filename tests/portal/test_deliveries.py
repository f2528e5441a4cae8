"""Deliveries, events, recoveries and API keys on the customers' pages."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from webhooks_app.database.clock import DatabaseClock
from webhooks_app.event_types import registry
from webhooks_app.models import (
    ApiKey,
    AuditEntry,
    Delivery,
    DeliveryAttempt,
    Event,
    EventReference,
    QueueEntry,
    Replay,
    Webhook,
)
from webhooks_app.pages.filters import PERIOD_CHOICES
from webhooks_app.protocol.ids import new_id
from webhooks_app.replays.runner import count

from ..support.reading import named, parsed
from ..support.rows import emit_one, make_webhook
from .conftest import Customer
from .test_webhooks import text

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 1, 15, 12, tzinfo=UTC)


def listed(amina: Customer, **query: str) -> list[str]:
    return [row.delivery.pk for row in amina.get("deliveries", **query).context["rows"]]


def test_each_filter_narrows_the_list(amina: Customer) -> None:
    pending = Delivery.objects.get(event=emit_one(amina.user))
    test = Delivery.objects.create(webhook=amina.webhook, event=amina.event, kind="test", state="succeeded")
    EventReference.objects.create(value="order_1", event=amina.event)
    old = (timezone.now() - timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%S")
    given_up = amina.delivery.pk

    assert set(listed(amina)) == {pending.pk, test.pk, given_up}
    assert listed(amina, state="given_up") == [given_up]
    assert listed(amina, state="pending") == [pending.pk]
    assert listed(amina, state="succeeded") == [test.pk]
    assert listed(amina, kind="test") == [test.pk]
    assert listed(amina, q=pending.pk) == [pending.pk]
    assert set(listed(amina, q=amina.event.pk)) == set(listed(amina, q="order_1")) == {test.pk, given_up}
    assert listed(amina, event_type="file.deleted") == []
    assert listed(amina, created_before=old) == []
    assert len(listed(amina, created_after=old, webhook_id=amina.webhook.pk)) == 3
    assert listed(amina, webhook_id=new_id("wh")) == []


def choices(amina: Customer, **query: str) -> dict[str, str]:
    """Return the choices above the list with their numbers, and a star at the chosen one."""
    found = amina.get("deliveries", **query).context["chips"]
    return {str(chip.label): f"{chip.number}{'*' * chip.is_chosen}" for chip in found}


def test_the_choices_above_the_list_have_the_numbers_of_their_rows(amina: Customer, monkeypatch: Any) -> None:
    for state, made in (("succeeded", 1), ("cancelled", 0), ("pending", 0), ("pending", 2)):
        Delivery.objects.create(webhook=amina.webhook, event=amina.event, state=state, attempt_count=made)
    repaired = Delivery.objects.create(webhook=amina.webhook, event=amina.event, state="given_up")
    Delivery.objects.create(webhook=amina.webhook, event=amina.event, state="succeeded", redelivery_of=repaired)
    QueueEntry.objects.add(Delivery.objects.pending())

    shown = text(amina.get("deliveries", event_type="ppt.generation.failed"))
    link = re.search(r'href="(\?[^"]*missed=true[^"]*)"', shown)

    assert choices(amina) == {"All": "7*", "Failed": "2", "Retrying": "1", "Delivered": "2", "Still missed": "2"}
    assert choices(amina, state="given_up", missed="")["Failed"] == "2*"
    assert choices(amina, webhook_id=new_id("wh"))["All"] == "0*"
    assert link is not None
    assert "event_type=ppt.generation.failed" in link[1]
    monkeypatch.setattr("webhooks_app.pages.listing.MAX_PER_CHIP", 2)
    few = choices(amina)
    assert (few["All"], few["Retrying"]) == ("2+*", "1")
    if connection.features.supports_partial_indexes:  # elsewhere, those that failed are sought among the newest two
        assert (few["Failed"], few["Still missed"]) == ("2", "2")
    monkeypatch.setattr("webhooks_app.pages.listing.MAX_PARTS_COUNTED", 0)
    assert set(choices(amina).values()) == {"*", ""}


def test_a_row_has_the_result_of_a_delivery_in_short(amina: Customer) -> None:
    Delivery.objects.create(
        webhook=amina.webhook, event=amina.event, state="succeeded", redelivery_of=amina.delivery, finished_at=NOON
    )
    Webhook.objects.update(description="Accounting")

    rows = re.findall(r"<tr>.*?</tr>", text(amina.get("deliveries")), re.DOTALL)

    created = f"{timezone.localtime(amina.delivery.created_at):%H:%M:%S}"
    assert " ".join(re.sub(r"<[^>]*>", " ", rows[-1]).split()) == (
        "503 given up ↻ delivered 01-15 12:00:00 ppt.generation.failed Accounting 1× " + created
    )


def test_the_list_has_pages(amina: Customer) -> None:
    made = [Delivery(webhook=amina.webhook, event=amina.event, state="succeeded") for _ in range(60)]
    Delivery.objects.bulk_create(made)

    first = amina.get("deliveries")
    second = amina.client.get(amina.url("deliveries") + first.context["older"])

    assert [len(page.context["rows"]) for page in (first, second)] == [50, 11]
    assert second.context["newer"]


def test_a_delivery_shows_both_sides_of_each_attempt(amina: Customer) -> None:
    shown = text(amina.get("delivery", amina.delivery.pk))

    assert "503" in shown
    assert "&lt;b&gt;down&lt;/b&gt;" in shown
    assert "given up" in shown


def test_the_connected_address_is_not_for_customers(amina: Customer) -> None:
    amina.delivery.attempts.update(peer="10.1.2.3:443")

    assert "10.1.2.3" not in text(amina.get("delivery", amina.delivery.pk))


def test_a_redelivery_leads_to_the_new_delivery(amina: Customer) -> None:
    answer = amina.post("delivery", amina.delivery.pk)

    again = Delivery.objects.get(redelivery_of=amina.delivery)
    assert answer.request["PATH_INFO"] == amina.url("delivery", again.pk)
    assert "Redelivered the event." in text(answer)
    assert again.requested_by == amina.user
    assert amina.url("delivery", again.pk) in text(amina.get("delivery", amina.delivery.pk))


def test_a_refused_redelivery_says_why(amina: Customer) -> None:
    Webhook.objects.update(status="disabled")

    answer = amina.post("delivery", amina.delivery.pk)

    assert "disabled" in text(answer)
    assert not Delivery.objects.filter(redelivery_of=amina.delivery).exists()


def test_an_event_says_why_each_webhook_got_it_or_not(amina: Customer) -> None:
    make_webhook(amina.user, "file.deleted")
    other = emit_one(amina.user)

    shown = text(amina.get("event", other.pk))

    assert "It was active, and subscribed to the type." in shown
    assert "It was not subscribed to the type." in shown


def test_an_event_has_the_timeline_of_the_accounts_own_webhooks(amina: Customer) -> None:
    make_webhook(None, url="http://127.0.0.1:9000/of-the-platform")
    event = emit_one(amina.user)
    own = Delivery.objects.get(event=event, webhook=amina.webhook)

    page = amina.get("event", event.pk)
    timeline = page.context["timeline"]

    assert Delivery.objects.filter(event=event).count() == 2
    assert [lane.url for lane in timeline.lanes] == [amina.url("delivery", own.pk)]
    assert "Delivered to 0 of 1 webhook." in text(page)
    assert "Timeline as a table" in text(page)
    assert "of-the-platform" not in page.content.decode()


def test_each_event_says_how_many_of_its_webhooks_got_it(amina: Customer) -> None:
    Delivery.objects.create(webhook=make_webhook(amina.user), event=amina.event, state="succeeded")
    Delivery.objects.create(webhook=make_webhook(None), event=amina.event, state="succeeded")

    assert "1 of 2 delivered, 1 given up" in text(amina.get("events"))


def test_notices_are_among_the_events_only_if_they_are_chosen(amina: Customer) -> None:
    notice = Event.objects.create(type="webhook.retry", owner=amina.user, created_at=amina.event.created_at)

    assert amina.get("events").context["events"] == [amina.event]
    assert amina.get("events", type="webhook.retry").context["events"] == [notice]
    assert amina.get("events", type="all").context["events"] == [notice, amina.event]
    assert amina.get("events", q=notice.pk).context["events"] == [notice]
    assert amina.get("event", notice.pk).status_code == 200


def test_missed_events_are_counted_before_they_are_sent(amina: Customer) -> None:
    answer = amina.post("replay-new", amina.webhook.pk, states=["given_up"])
    replay = Replay.objects.latest("pk")
    count(replay.alias, replay, DatabaseClock(replay.alias), max_seconds=5)

    counted = text(amina.get("replay", replay.pk))
    started = text(amina.post("replay-step", replay.pk, "start"))

    assert answer.request["PATH_INFO"] == amina.url("replay", replay.pk)
    assert "1 event would be sent." in counted
    assert "Running: 0 of 1 queued." in started
    assert replay.requested_by == amina.user


def test_nothing_is_offered_if_no_event_was_found(amina: Customer) -> None:
    Replay.objects.filter(pk=amina.replay.pk).update(state="done", matched=0)

    shown = text(amina.get("replay", amina.replay.pk))

    assert "No events to send in this period." in shown
    assert "Start" not in shown


def test_the_end_of_a_replay_is_confirmed_with_a_reason(amina: Customer) -> None:
    asked = amina.get("replay-step", amina.replay.pk, "cancel")
    amina.post("replay-step", amina.replay.pk, "cancel", reason="wrong week")

    amina.replay.refresh_from_db()
    entry = AuditEntry.objects.get(subject=amina.replay.pk, action="replay.cancelled")
    assert "No delivery is pending." in text(asked)
    assert asked.context["is_destructive"]
    assert (amina.replay.state, entry.reason) == ("cancelled", "wrong week")


def test_a_step_that_is_not_possible_is_explained(amina: Customer) -> None:
    amina.post("replay-step", amina.replay.pk, "cancel")

    refused = text(amina.post("replay-step", amina.replay.pk, "cancel"))

    assert 'role="alert"' in refused


def test_a_new_key_is_shown_once_and_works(amina: Customer, client: Any) -> None:
    form = {"name": "Import", "scopes": ["webhooks:read"], "expires_at": "2999-01-01T00:00:00"}

    shown = amina.client.post(amina.url("key-new"), form, follow=True)
    key = shown.context["secret"]

    assert key in text(shown)
    assert client.get("/v1/webhooks", headers={"Authorization": f"Bearer {key}"}).status_code == 200
    assert key not in text(amina.client.get(shown.request["PATH_INFO"]))


def test_a_new_key_suggests_its_expiry(amina: Customer) -> None:
    initial = amina.get("key-new").context["form"]["expires_at"].value()

    assert initial.date() == (timezone.now() + timedelta(days=90)).date()


def test_a_key_cannot_have_a_scope_of_services(amina: Customer) -> None:
    form = {"name": "Import", "scopes": ["events:emit"]}

    refused = amina.client.post(amina.url("key-new"), form)

    assert refused.context["form"].errors["scopes"]


def test_a_revoked_key_is_refused_at_once(amina: Customer, client: Any) -> None:
    key, secret = ApiKey.objects.make(owner=amina.user, name="Old")

    answer = amina.post("key-revoke", key.pk)

    assert "Revoked the key." in text(answer)
    assert client.get("/v1/webhooks", headers={"Authorization": f"Bearer {secret}"}).status_code == 401


def test_the_list_of_keys_shows_their_use_and_their_state(amina: Customer) -> None:
    ApiKey.objects.make(owner=amina.user, name="Used")
    ApiKey.objects.filter(name="Used").update(last_used_at=NOON, expires_at=NOON - timedelta(days=1))
    ApiKey.objects.make(owner=amina.user, name="Gone")[0].revoke()

    rows = dict(re.findall(r"<tr><td>(\w+)</td>(.*?)</tr>", text(amina.get("keys")), re.DOTALL))

    assert "2026-01-15 12:00:00" in rows["Used"]
    assert [word in rows[name] for name, word in (("Used", "expired"), ("Gone", "revoked"), ("Import", "never"))] == [
        True
    ] * 3
    assert [name for name, row in rows.items() if "/revoke/" in row] == ["Import"]


def test_only_event_types_of_the_owner_are_shown(amina: Customer) -> None:
    operational = next(each.name for each in registry if each.operational)

    listed_types = text(amina.get("event-types"))

    assert "ppt.generation.failed" in listed_types
    assert operational not in listed_types
    assert amina.get("event-type", operational).status_code == 404
    assert "{&quot;error&quot;" in text(amina.get("event-type", "ppt.generation.failed")).replace("\n  ", "")


def field_of_webhooks(page: str) -> tuple[str, list[str]]:
    """Return what the field of the webhook contains and suggests."""
    field = parsed(page).find("input", {"name": "webhook_id"})
    options = parsed(page).find("datalist", id=field["list"]).find_all("option")
    return field.get("value", ""), [option["value"] for option in options]


@pytest.mark.parametrize("typed", ["ACCOUNTING", "books.example", "Accounting · books.example.com/hooks", "{pk}"])
def test_a_webhook_is_searched_by_its_name_or_url(amina: Customer, typed: str) -> None:
    other = make_webhook(amina.user, url="https://books.example.com/hooks", description="Accounting")
    make_webhook(amina.user, url="https://crm.example.com/", description="CRM")

    answer = amina.client.get(
        amina.url("deliveries"), {"webhook_id": typed.format(pk=other.pk), "kind": "all"}, follow=True
    )

    assert answer.wsgi_request.GET.dict() == {"webhook_id": other.pk, "kind": "all"}
    assert named(text(answer), "State").h1.text == "Accounting"
    name, suggested = field_of_webhooks(text(answer))
    assert name == "Accounting · books.example.com/hooks"
    assert len(suggested) == 3


def test_several_webhooks_that_match_are_linked(amina: Customer) -> None:
    found = [make_webhook(amina.user, description=f"Books {number}") for number in (1, 2)]

    page = text(amina.get("deliveries", webhook_id="books", state="given_up"))
    unknown = text(amina.get("deliveries", webhook_id="nothing"))

    links = [parsed(page).find("a", string=re.compile(each.description)) for each in found]
    assert [link["href"] for link in links] == [f"?webhook_id={each.pk}&state=given_up" for each in found]
    assert "Several webhooks match. Choose one:" in page
    assert "No deliveries." in page
    assert field_of_webhooks(page)[0] == "books"
    assert "No webhook has this name, or this in its URL." in unknown


def test_a_webhook_is_searched_by_the_first_of_many_words(amina: Customer) -> None:
    words = [chr(0x4E00 + number) for number in range(1024)]

    page = text(amina.get("deliveries", webhook_id=" ".join(words)))

    assert "No webhook has this name, or this in its URL." in page


SAME = {
    "url": "https://hooks.example.com/services/T0001/B0001/incoming-webhooks/of-accounting/token-",
    "description": "Books",
}


@pytest.mark.parametrize("tokens", ["11", "12"], ids=["equal", "different after the name's end"])
def test_one_of_two_webhooks_with_the_same_name_remains_chosen(amina: Customer, tokens: str) -> None:
    pks = [make_webhook(amina.user, **{**SAME, "url": SAME["url"] + each}).pk for each in tokens]
    page = text(amina.get("deliveries", webhook_id="books"))
    links = {link.text: link["href"] for link in parsed(page).find_all("a", string=re.compile("^Books"))}
    suggested = field_of_webhooks(page)[1]

    kept = []
    for link in links.values():
        chosen = text(amina.client.get(amina.url("deliveries") + link))
        name = field_of_webhooks(chosen)[0]
        answer = amina.get("deliveries", webhook_id=name, state="given_up")
        kept.append(answer.url)

    assert sorted(suggested) == sorted(links)
    assert sorted(kept) == sorted(f"?webhook_id={pk}&state=given_up" for pk in pks)


@pytest.mark.parametrize("name", ["wh_orders", "dlv_orders", "evt_orders", "rpl_orders"])
def test_a_webhook_described_like_an_identifier_is_found(amina: Customer, name: str) -> None:
    other = make_webhook(amina.user, url="https://example.com/hook", description=name)
    delivery = Delivery.objects.create(webhook=other, event=amina.event, state="succeeded")

    suggested = field_of_webhooks(text(amina.get("deliveries")))[1]

    assert f"{name} · example.com/hook" in suggested
    for typed in (name, f"{name} · example.com/hook"):
        assert amina.get("deliveries", webhook_id=typed).url == f"?webhook_id={other.pk}"
    assert listed(amina, q=name) == [delivery.pk]
    assert "No webhook has this name" in text(amina.get("deliveries", webhook_id="wh_files"))


def test_the_exact_name_is_found_among_many_newer_ones_that_contain_it(amina: Customer) -> None:
    first = make_webhook(amina.user, url="https://a.example/1", description="Books")
    rows = [
        Webhook(owner=amina.user, url=f"https://a.example/1{n}", description="Books", event_types=[]) for n in range(99)
    ]
    Webhook.objects.bulk_create(rows)

    found = amina.get("deliveries", webhook_id="Books · a.example/1")

    assert found.status_code == 302
    assert found.url == f"?webhook_id={first.pk}"


def test_the_webhooks_of_other_accounts_are_not_found(amina: Customer, boris: Customer) -> None:
    make_webhook(boris.user, description="Accounting")

    page = text(amina.get("deliveries", webhook_id="Accounting"))
    suggested = field_of_webhooks(text(amina.get("deliveries")))[1]

    assert "No webhook has this name" in page
    assert not any("Accounting" in each for each in suggested)


def test_one_of_many_webhooks_is_found_on_a_small_page(amina: Customer) -> None:
    rows = [Webhook(owner=amina.user, url=f"https://a.example/{number}/", event_types=[]) for number in range(1000)]
    Webhook.objects.bulk_create(rows)

    page = text(amina.get("deliveries"))
    found = amina.get("deliveries", webhook_id="example/17/")

    assert len(page.encode()) < 60_000
    assert found.url == f"?webhook_id={rows[17].pk}"


def test_a_search_for_an_event_is_within_the_chosen_webhook(amina: Customer) -> None:
    other = make_webhook(amina.user, url="https://other.example.com/")

    assert listed(amina, q=amina.event.pk, webhook_id=other.pk) == []
    assert listed(amina, q=amina.event.pk) == [amina.delivery.pk]


def test_a_time_beyond_the_calendar_is_refused(amina: Customer) -> None:
    page = amina.post("replay-new", amina.webhook.pk, since="9999-12-31T23:59", states=["given_up"])

    assert page.status_code == 200
    assert "Ensure this value is less than or equal to" in text(page)


def test_events_of_hidden_types_are_on_no_page(amina: Customer, settings: Any) -> None:
    settings.WEBHOOKS_OWNERS = "tests.portal.conftest.WithoutFailures"
    other = Event.objects.create(type="file.deleted", owner=amina.user, created_at=amina.event.created_at)

    assert amina.get("events").context["events"] == [other]
    assert amina.get("event", amina.event.pk).status_code == 404
    assert amina.get("event", other.pk).status_code == 200


def test_deliveries_are_found_by_the_answer_to_an_attempt(amina: Customer) -> None:
    emit_one(amina.user)
    facts = {"state": "given_up", "attempt_count": 1, "last_result": "timeout"}
    late = Delivery.objects.create(webhook=amina.webhook, event=amina.event, **facts)
    attempt = {"number": 1, "result": "timeout", "started_at": NOON, "url": amina.webhook.url}
    DeliveryAttempt.objects.create(delivery=late, **attempt)

    assert listed(amina, answer="503") == listed(amina, answer="5xx") == [amina.delivery.pk]
    assert listed(amina, answer="4xx") == []
    assert listed(amina, answer="timeout") == [late.pk]
    assert "Enter a status such as 503, or 4xx or 5xx." in text(amina.get("deliveries", answer="many"))


def test_deliveries_are_found_by_a_period(amina: Customer, monkeypatch: pytest.MonkeyPatch) -> None:
    noon = timezone.localtime().replace(hour=12, minute=0)
    monkeypatch.setattr(timezone, "now", lambda: noon)
    hours = (0, 3, 25, 3 * 24, 15 * 24, 60 * 24)
    Delivery.objects.all().delete()
    ages = [
        Delivery.objects.create(
            id=new_id("dlv", noon - timedelta(hours=number)), webhook=amina.webhook, event=amina.event
        ).pk
        for number in hours
    ]

    assert {period: listed(amina, period=period) for period in PERIOD_CHOICES} == {
        "today": ages[:2],
        "yesterday": ages[2:3],
        "hour": ages[:1],
        "day": ages[:2],
        "week": ages[:4],
        "month": ages[:5],
        "before_day": ages[2:],
        "before_week": ages[4:],
        "before_month": ages[5:],
    }


def test_deliveries_are_found_by_the_time_of_their_end(amina: Customer) -> None:
    since, until = NOON, NOON + timedelta(hours=1)
    limits = {"finished_after": f"{since:%Y-%m-%dT%H:%M}", "finished_before": f"{until:%Y-%m-%dT%H:%M}"}
    ends = (since - timedelta(seconds=1), since, until)
    made = [
        Delivery.objects.create(webhook=amina.webhook, event=amina.event, state="succeeded", finished_at=at)
        for at in ends
    ]
    masked = {"state": "given_up", "finished_at": since, "is_masked": True}
    Delivery.objects.create(webhook=amina.webhook, event=amina.event, **masked)
    Delivery.objects.filter(pk=amina.delivery.pk).update(finished_at=until)

    assert listed(amina, **limits) == [made[1].pk]
    assert set(listed(amina, finished_after=limits["finished_before"])) == {amina.delivery.pk, made[2].pk}
    assert listed(amina, state="cancelled", **limits) == []
    Delivery.objects.filter(pk=made[1].pk).update(state="cancelled")
    assert listed(amina, state="cancelled", **limits) == [made[1].pk]
    assert "Ensure this value is less than or equal to" in text(amina.get("deliveries", finished_after="9999-12-31"))


@pytest.mark.parametrize(
    ("verb", "reason"),
    [("cancel", "an ended replay cannot be cancelled"), ("start", "only a ready replay can be started")],
)
def test_a_step_that_a_replay_does_not_permit_is_not_asked(amina: Customer, verb: str, reason: str) -> None:
    Replay.objects.update(state="done")

    for method in (amina.client.get, amina.client.post):
        page = method(amina.url("replay-step", amina.replay.pk, verb), follow=True)
        assert page.redirect_chain == [(amina.url("replay", amina.replay.pk), 302)]
        assert f"is done; {reason}" in text(page)
    assert Replay.objects.get().state == "done"


def test_the_page_of_a_replay_shows_the_latest_answer(amina: Customer) -> None:
    replay, event = amina.replay, amina.event
    Replay.objects.update(state="done", started_at=timezone.now(), matched=1, queued=1)
    delivery = Delivery.objects.queue(event=event, webhook=amina.webhook, replay=replay)
    facts = {"response_status": 503, "duration_ms": 47, "response_body": "not now", "result": "http_status"}
    DeliveryAttempt.objects.create(
        delivery=delivery, number=1, url=amina.webhook.url, started_at=timezone.now(), **facts
    )
    Delivery.objects.filter(pk=delivery.pk).update(attempt_count=1)

    waiting = text(amina.get("replay", replay.pk))
    Replay.objects.update(finished_at=timezone.now() - timedelta(minutes=6))
    later = text(amina.get("replay", replay.pk))
    Delivery.objects.update(state="given_up")
    final = text(amina.get("replay", replay.pk))

    # An attempt that is shown is of a pending delivery, so the page expects more.
    assert ["data-expected" in page for page in (waiting, later, final)] == [True, True, False]
    assert all(words in page for page in (waiting, final) for words in ("503", "47\xa0ms", "not now", delivery.pk))
