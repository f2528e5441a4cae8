"""Pages of deliveries, webhooks, events and event types, with their actions."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import quote
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.support.reading import name_of, named, parsed
from webhooks_app.emission import emit
from webhooks_app.models import Delivery, DeliveryAttempt, Event, QueueEntry, QueueLane, Webhook
from webhooks_app.operations.actors import PROJECT
from webhooks_app.operations.lifecycle import start_verification

from ..support.rows import end_deliveries, unverified
from .conftest import DATA, SECRET, Page, shown_messages, shows, text

Result, State = DeliveryAttempt.Result, Delivery.State
MAX_QUERIES = {"webhook": 16, "delivery": 14, "event": 19, "type": 14}
"""Django 6.1 makes one more for an event than 5.2."""
"""An event has a timeline: its deliveries, their attempts, the notices of these, and what holds them."""


@pytest.fixture
def attempt(delivery: Delivery) -> DeliveryAttempt:
    return new_attempt(delivery, 1)


def new_attempt(delivery: Delivery, number: int, **fields: Any) -> DeliveryAttempt:
    values = {
        "result": Result.HTTP_STATUS,
        "message": "Answered with status 500. Only status 200 confirms receipt.",
        "started_at": timezone.now(),
        "duration_ms": 12,
        "url": f"{delivery.webhook.url}?who=O'Neill",
        "timestamp": 1_795_252_384,
        "signatures": "sha256=" + "a" * 64,
        "agent": "webhooks_app/0.1.0",
        "response_status": 500,
        "response_headers": [["Server", "nginx"]],
        "response_body": "out of order",
        "peer": "192.0.2.7",
        "timings": {"connect": 3, "first_byte": 11},
        **fields,
    }
    return DeliveryAttempt.objects.create(delivery=delivery, number=number, **values)


# Deliveries


@pytest.mark.parametrize(
    "shown",
    [
        "POST /hooks?who=O'Neill HTTP/1.1",
        "X-Webhook-Signature: sha256=" + "a" * 64,
        '"file_id":"file_1"',
        "Status 500",
        "Server: nginx",
        "out of order",
        "192.0.2.7",
        "Answered with status 500.",
    ],
)
def test_both_sides_of_an_attempt_are_shown(superuser: Page, attempt: DeliveryAttempt, shown: str) -> None:
    assert shows(superuser.get("delivery", "change", attempt.delivery_id), shown)


def test_the_command_sends_the_same_bytes_to_the_same_url(superuser: Page, attempt: DeliveryAttempt) -> None:
    (shown,) = superuser.get("delivery", "change", attempt.delivery_id).context["attempts"]

    words = shlex.split(shown.curl.replace("\\\n", ""))

    assert words[0] == "curl"
    assert attempt.url in words
    assert words[words.index("--data-binary") + 1].encode() == attempt.request_body
    assert f"X-Webhook-Signature: {attempt.signatures}" in words
    assert not any(word.startswith(("Host:", "Content-Length:")) for word in words)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        (
            {"state": State.GIVEN_UP, "attempt_count": 4},
            "This was the last of 4 attempts, so",
        ),
        ({"state": State.CANCELLED, "state_reason": "webhook_deleted"}, "The webhook was deleted."),
        (
            {"due_at": timedelta(seconds=30)},
            "According to the retry schedule, the next attempt follows 30 s after attempt 1.",
        ),
        ({"claimed_at": timedelta(0), "leased_until": timedelta(minutes=1)}, "In flight. If there is no result by"),
        ({"claimed_at": -timedelta(minutes=1), "leased_until": -timedelta(seconds=1)}, "The worker was lost at"),
    ],
    ids=["given up", "cancelled", "retried", "in flight", "lost"],
)
def test_a_sentence_explains_the_next_step(
    superuser: Page, attempt: DeliveryAttempt, fields: dict[str, Any], says: str
) -> None:
    ended_at = attempt.started_at + timedelta(milliseconds=12)
    values = {name: ended_at + value if isinstance(value, timedelta) else value for name, value in fields.items()}
    if "state" in values:
        end_deliveries(**values)
    else:
        QueueEntry.objects.update(**values)

    assert shows(superuser.get("delivery", "change", attempt.delivery_id), says)


def test_a_sentence_gives_the_time_of_the_retry(superuser: Page, attempt: DeliveryAttempt) -> None:
    new_attempt(attempt.delivery, 2, started_at=attempt.started_at + timedelta(seconds=5.012))

    assert shows(superuser.get("delivery", "change", attempt.delivery_id), "The next attempt followed 5 s later")


HOLDS: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    "due": ({}, {}, "Due since", "due"),
    "not due": ({"due_at": timedelta(hours=5)}, {}, "Next attempt in 5 h, at", "in 5 h"),
    "paused": ({}, {"paused_at": timedelta(0)}, "Paused since", "paused"),
    "unverified": ({}, {"status": "pending"}, "Waiting for verification of the webhook.", "waiting for verification"),
    "unverified notice": (
        {"kind": "retry_notice"},
        {"status": "pending"},
        "Waiting for verification of the webhook.",
        "waiting for verification",
    ),
    "stopped": ({}, {"status": "disabled"}, "so this delivery will be cancelled", "webhook stopped"),
    "expired": ({"expires_at": timedelta(0)}, {}, "Expired at", "expired"),
    "rate limited": (
        {},
        {"rate_limit": 1.0, "next_slot_at": timedelta(minutes=1)},
        "Rate limit reached; next slot at",
        "rate limit reached",
    ),
    "concurrency": ({}, {"max_in_flight": 1}, "1 of 1 requests in flight.", "all requests in flight"),
}


@pytest.mark.parametrize(("fields", "state", "sentence", "words"), HOLDS.values(), ids=HOLDS)
def test_a_pending_delivery_shows_why_it_is_not_sent_now(
    superuser: Page, delivery: Delivery, fields: dict[str, Any], state: dict[str, Any], sentence: str, words: str
) -> None:
    now = timezone.now()
    lane = QueueLane(webhook=delivery.webhook)
    for changed, changes in (((delivery, delivery.queue_entry), fields), ((delivery.webhook, lane), state)):
        for name, value in changes.items():
            for row in changed:
                if name in {field.name for field in row._meta.fields}:
                    setattr(row, name, now + value if isinstance(value, timedelta) else value)
        for row in changed:
            row.save()
    if state.get("max_in_flight"):
        other = Delivery.objects.queue(webhook=delivery.webhook, kind="test")
        QueueEntry.objects.filter(pk=other.pk).update(claimed_at=now, leased_until=now + timedelta(minutes=1))

    assert shows(superuser.get("delivery", "change", delivery.pk), sentence)
    assert f">{words}<" in text(superuser.get("delivery", kind="all"))


def test_the_body_of_an_event_needs_permission_to_view_events(staff: Any, attempt: DeliveryAttempt) -> None:
    page = staff("berta", "view_delivery", "manage_all_webhooks").get("delivery", "change", attempt.delivery_id)

    assert shows(page, "POST /hooks")
    assert not shows(page, "file_1")


def test_a_pruned_body_has_a_note(superuser: Page, attempt: DeliveryAttempt) -> None:
    Event.objects.update(body="")

    page = superuser.get("delivery", "change", attempt.delivery_id)

    assert shows(page, "No longer stored.")
    assert not shows(page, "Content-Length: 0")


def test_a_delivery_is_redelivered_from_its_page(superuser: Page, delivery: Delivery) -> None:
    end_deliveries(state=State.GIVEN_UP)
    page = superuser.get("delivery", "change", delivery.pk)
    (button,) = page.context["steering"]

    asked = superuser.client.get(button.url)
    assert shows(asked, "Send this event again, as a new delivery?")
    assert Delivery.objects.count() == 1
    done = superuser.client.post(button.url, {"confirmed": "yes"}, follow=True)

    assert shown_messages(done) == ["Redelivered the event."]
    new = Delivery.objects.get(redelivery_of=delivery)
    assert new.requested_by == superuser.user
    assert done.redirect_chain[-1][0].endswith(f"/delivery/{quote(new.pk)}/change/")
    assert delivery.pk in text(done)
    assert f'/delivery/{new.pk}/change/">{new.pk}</a>' in text(superuser.get("delivery", "change", delivery.pk))


def test_a_test_event_leads_to_its_delivery(superuser: Page, webhook: Webhook) -> None:
    done = superuser.post("webhook", "act", webhook.pk, "send_test", confirmed="yes", event_type="file.deleted")

    new = Delivery.objects.get()
    assert done.redirect_chain[-1][0].endswith(f"/delivery/{new.pk}/change/")


def test_a_test_event_leads_back_without_the_permission_to_view_deliveries(
    staff: Callable[..., Page], new_webhook: Callable[..., Webhook]
) -> None:
    page = staff("berta", "view_webhook", "test_webhook")
    webhook = new_webhook(page.user)

    done = page.post("webhook", "act", webhook.pk, "send_test", confirmed="yes", event_type="file.deleted")

    assert done.redirect_chain[-1][0].endswith(f"/webhook/{quote(webhook.pk)}/change/")
    assert shown_messages(done) == ["Sent a test event of type file.deleted."]


def test_a_changed_url_leads_to_its_verification(superuser: Page, webhook: Webhook) -> None:
    form = {"url": "https://new.example.com/", "event_types": ["file.deleted"]}

    done = superuser.post("webhook", "change", webhook.pk, **form)

    assert done.redirect_chain[-1][0].endswith(f"/webhook/{quote(webhook.pk)}/change/?section=verification")
    assert shows(done, "Verification in progress")


def test_the_page_of_a_delivery_is_live_until_its_result_is_final(superuser: Page, delivery: Delivery) -> None:
    page, part = (superuser.get("delivery", name, delivery.pk) for name in ("change", "live"))
    assert f'data-live="/admin/webhooks_app/delivery/{quote(delivery.pk)}/live/"' in text(page)
    assert "data-done" not in text(part)

    end_deliveries(state="succeeded")

    assert "data-done" in text(superuser.get("delivery", "live", delivery.pk))


def test_the_live_part_of_a_delivery_is_shown_to_its_owner_only(staff: Callable[..., Page], delivery: Delivery) -> None:
    viewer, stranger = staff("carla"), staff("berta", "view_delivery")

    assert viewer.get("delivery", "live", delivery.pk).status_code == 403
    assert stranger.get("delivery", "live", delivery.pk).status_code == 404


def test_the_strip_shows_each_attempt_and_the_time_between(superuser: Page, delivery: Delivery) -> None:
    start = timezone.now()
    facts = {"delivery": delivery, "url": delivery.webhook.url}
    DeliveryAttempt.objects.create(
        **facts, number=1, result=Result.HTTP_STATUS, response_status=503, started_at=start, duration_ms=500
    )
    DeliveryAttempt.objects.create(
        **facts,
        number=2,
        result=Result.SUCCEEDED,
        response_status=200,
        started_at=start + timedelta(seconds=3),
        response_body='{"ok":true}',
    )
    end_deliveries(state="succeeded", attempt_count=2)

    page = text(superuser.get("delivery", "change", delivery.pk))
    strip = str(named(page, "Attempts"))

    assert strip.count("<time ") == strip.count(' UTC">') == 2
    assert [strip.index(words) for words in (">503<", "500\xa0ms", "+2.5 s", ">200<")] == sorted(
        strip.index(words) for words in (">503<", "500\xa0ms", "+2.5 s", ">200<")
    )
    attempts = [each for each in parsed(page).find_all("details") if name_of(each).startswith("Attempt ")]
    assert [each.has_attr("open") for each in attempts] == [False, True]
    assert '{\n  "ok": true\n}' in attempts[1].get_text()
    assert page.partition("<main")[2].count(f">{delivery.pk}<") == 1


@pytest.mark.parametrize(("state", "shows_link"), [("pending", True), ("succeeded", False), ("given_up", False)])
def test_only_a_pending_delivery_can_be_refreshed(
    superuser: Page, delivery: Delivery, state: str, shows_link: bool
) -> None:
    if state != "pending":
        end_deliveries(state=state)

    page = text(superuser.get("delivery", "change", delivery.pk))

    assert (">Refresh</a>" in page) == shows_link


# Webhooks


LAST = ("try_filter", "link_to_pages")


def buttons(page: Any) -> list[str]:
    """Return the actions that a webhook's page offers: the remedies in its card, the others, and those at its end."""
    offered = [*page.context["remedies"], *page.context["page_actions"], *page.context["last_actions"]]
    return [button.url.rstrip("/").rpartition("/")[2] for button in offered]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("active", ["send_test", "pause", "rotate_secret", "replay_missed", *LAST, "disable"]),
        ("disabled", ["enable", "rotate_secret", "replay_missed", *LAST]),
        ("failed", ["verify", "send_test", "rotate_secret", "replay_missed", *LAST, "disable"]),
    ],
)
def test_a_webhook_has_the_buttons_that_its_state_allows(
    superuser: Page, webhook: Webhook, status: str, expected: list[str]
) -> None:
    Webhook.objects.update(status=status)

    assert buttons(superuser.get("webhook", "change", webhook.pk)) == expected


def test_a_paused_webhook_can_be_resumed(superuser: Page, webhook: Webhook) -> None:
    webhook.pause()

    assert "resume" in buttons(superuser.get("webhook", "change", webhook.pk))
    superuser.post("webhook", "act", webhook.pk, "resume", confirmed="yes")

    assert Webhook.objects.get().paused_at is None


def test_the_view_permission_has_no_buttons_and_no_actions(staff: Callable[..., Page], webhook: Webhook) -> None:
    viewer = staff("berta", "view_webhook", "view_delivery", "manage_all_webhooks")

    assert buttons(viewer.get("webhook", "change", webhook.pk)) == []
    for action in ("send_test", "verify", "pause", "disable", "rotate_secret", "try_filter"):
        assert viewer.post("webhook", "act", webhook.pk, action, confirmed="yes").status_code == 403
    assert (Webhook.objects.get().status, LogEntry.objects.count()) == ("active", 0)


def test_staff_cannot_act_on_foreign_rows(staff: Callable[..., Page], webhook: Webhook) -> None:
    other = staff("berta", "view_webhook", "change_webhook")

    assert other.post("webhook", "act", webhook.pk, "disable", confirmed="yes").status_code == 404
    assert other.get("webhook", "live", webhook.pk, "handshake").status_code == 404


def test_a_rotated_secret_is_shown_with_a_button_that_copies_it(superuser: Page, webhook: Webhook) -> None:
    answer = superuser.post("webhook", "act", webhook.pk, "rotate_secret", confirmed="yes")

    webhook.refresh_from_db()
    assert webhook.secret != SECRET
    assert parsed(text(answer)).find(id="secret").get_text() == webhook.secret
    assert 'data-copy="secret"' in text(answer)


def test_missed_events_can_be_sent_from_the_page_of_a_secret(superuser: Page, webhook: Webhook) -> None:
    start_verification(unverified(webhook), actor=PROJECT)

    answer = superuser.post("webhook", "act", webhook.pk, "rotate_secret", confirmed="yes")

    form = parsed(text(answer)).select_one("[data-live]").find_parent("form", method="post")
    assert form.find("input", attrs={"name": "csrfmiddlewaretoken"})


def test_a_test_event_carries_the_data_that_was_edited(superuser: Page, webhook: Webhook) -> None:
    asked = superuser.get("webhook", "act", webhook.pk, "send_test")
    form = asked.context["form"]
    assert json.loads(form["event_data"].value())

    data = json.dumps({**DATA, "filename": "edited.pdf"})
    superuser.post(
        "webhook", "act", webhook.pk, "send_test", confirmed="yes", event_type="file.deleted", event_data=data
    )

    assert Event.objects.get().data["filename"] == "edited.pdf"


@pytest.mark.parametrize(
    ("data", "says"),
    [("{", "Invalid JSON"), ("[]", "Enter a JSON object"), ('{"file_id": 1}', "user_id: is missing")],
)
def test_invalid_data_is_refused_with_the_reason(superuser: Page, webhook: Webhook, data: str, says: str) -> None:
    answer = superuser.post(
        "webhook", "act", webhook.pk, "send_test", confirmed="yes", event_type="file.deleted", event_data=data
    )

    assert says in text(answer)
    assert not Event.objects.exists()


def test_the_example_of_another_type_is_shown_without_scripts(superuser: Page, webhook: Webhook) -> None:
    answer = superuser.post(
        "webhook", "act", webhook.pk, "send_test", confirmed="yes", show_example="", event_type="ppt.edit.failed"
    )

    assert answer.context["form"]["event_type"].value() == "ppt.edit.failed"
    assert "error" in answer.context["form"]["event_data"].value()
    assert not Event.objects.exists()


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("https://receiver.example.com/hook", "This URL is allowed."),
        ("https://10.0.0.1/", "a private network"),
        ("ftp://receiver.example.com/", "The URL begins with ftp://. Use https://."),
        ("", "The URL has no scheme and host."),
    ],
)
def test_a_url_is_checked_at_once(superuser: Page, url: str, says: str) -> None:
    assert says in text(superuser.post("webhook", "check_url", url=url))


def test_a_new_webhook_shows_its_handshake(superuser: Page) -> None:
    form = {"audience": "every", "url": "https://receiver.example.com/hook", "event_types": "file.deleted"}
    answer = superuser.post("webhook", "add", **form)

    webhook = Webhook.objects.get()
    assert shows(answer, "Verification in progress: the URL must return the challenge unchanged.")
    assert "/live/handshake/" in text(answer)
    delivery = webhook.deliveries.get()
    new_attempt(delivery, 1, challenge="the-challenge", timestamp=1)
    Delivery.objects.update(attempt_count=1)

    later = superuser.get("webhook", "live", webhook.pk, "handshake")

    assert shows(later, "Not verified yet, after 1 of 4 attempts. Answered with status 500.")
    assert shows(later, '"challenge":"the-challenge"')
    assert "<html" not in text(later)


@pytest.mark.parametrize(
    ("state", "says", "is_done"),
    [
        (State.PENDING, "Not verified yet", False),
        (State.SUCCEEDED, "Verified: the URL returned the challenge", True),
        (State.GIVEN_UP, "Once the receiver works, verify again.", True),
    ],
)
def test_a_live_part_is_marked_when_final(
    superuser: Page, webhook: Webhook, state: str, says: str, is_done: bool
) -> None:
    delivery = start_verification(unverified(webhook), actor=PROJECT)
    new_attempt(delivery, 1)
    Delivery.objects.update(state=state, attempt_count=1)

    part = superuser.get("webhook", "live", webhook.pk, "handshake")

    assert shows(part, says)
    assert ("data-done" in text(part)) == is_done


def test_a_live_part_has_the_head_of_the_same_moment(superuser: Page, webhook: Webhook) -> None:
    delivery = start_verification(unverified(webhook), actor=PROJECT)
    assert "Not verified yet" in text(superuser.get("webhook", "live", webhook.pk, "handshake"))
    Delivery.objects.filter(pk=delivery.pk).update(state=State.SUCCEEDED)
    Webhook.objects.get(pk=webhook.pk).activate()

    part = text(superuser.get("webhook", "live", webhook.pk, "handshake"))

    assert "Verified: the URL returned the challenge" in part
    assert "No requests yet" in part.partition('<template data-of="head">')[2]


def test_recent_deliveries_are_a_live_part(superuser: Page, delivery: Delivery) -> None:
    part = superuser.get("webhook", "live", delivery.webhook_id, "recent")

    assert shows(part, "file.deleted")
    assert "no-store" in part.headers["Cache-Control"]
    assert superuser.get("webhook", "live", delivery.webhook_id, "other").status_code == 404


def test_recent_deliveries_need_permission_to_view_deliveries(staff: Callable[..., Page], delivery: Delivery) -> None:
    viewer = staff("berta", "view_webhook", "manage_all_webhooks")

    pages = [viewer.get("webhook", "change", delivery.webhook_id, section=name) for name in ("overview", "deliveries")]
    assert not any("live/" in text(page) for page in pages)
    assert viewer.get("webhook", "live", delivery.webhook_id, "recent").status_code == 404


def test_event_types_are_grouped_and_described(superuser: Page) -> None:
    page = text(superuser.get("webhook", "add"))

    assert "<legend>File</legend>" in page
    assert 'data-group="all of this group"' in page
    assert "File deleted" in page


# Events and event types


def test_an_event_shows_its_raw_bytes_and_recipients(superuser: Page, delivery: Delivery, event: Event) -> None:
    page = superuser.get("event", "change", event.pk)

    assert shows(page, event.body)
    assert shows(page, delivery.webhook.url)
    assert [row.delivery for row in page.context["recipients"]] == [delivery]


def test_an_event_without_recipients_shows_the_reason(superuser: Page, owner: Any) -> None:
    event = emit("file.deleted", DATA, owner=owner)

    assert shows(superuser.get("event", "change", event.pk), "None: no active webhook")


def test_staff_see_no_recipients_of_others(staff: Callable[..., Page], new_webhook: Any) -> None:
    page = staff("berta", "view_event", "view_delivery")
    new_webhook(None, url="https://platform.example.com/")
    event = emit("file.deleted", DATA, owner=page.user)

    assert not shows(page.get("event", "change", event.pk), "platform.example.com")


def test_an_event_type_has_a_page(superuser: Page, webhook: Webhook) -> None:
    listed = superuser.get("eventtypes")
    page = superuser.get("webhook", "event_type", "file.deleted")

    assert shows(listed, "file.deleted")
    for shown in ("File deleted", '"filename"', "json-schema.org", webhook.url):
        assert shows(page, shown)


def test_an_event_type_without_subscribers_has_a_note(superuser: Page) -> None:
    assert shows(superuser.get("webhook", "event_type", "file.deleted"), "No webhook is subscribed to this event type.")
    assert superuser.get("webhook", "event_type", "no.such_type").status_code == 404


# Number of queries


@pytest.mark.parametrize("name", ["webhook", "delivery", "event", "type"])
def test_a_page_costs_a_bounded_number_of_queries(superuser: Page, new_webhook: Any, name: str) -> None:
    webhooks = [new_webhook(None) for _ in range(20)]
    for _ in range(10):
        event = emit("file.deleted", DATA, owner=None)
    delivery = event.deliveries.order_by("pk")[0]
    for number in range(1, 5):
        new_attempt(delivery, number)
    address = {
        "webhook": ("webhook", "change", webhooks[0].pk),
        "delivery": ("delivery", "change", delivery.pk),
        "event": ("event", "change", event.pk),
        "type": ("webhook", "event_type", "file.deleted"),
    }[name]

    with CaptureQueriesContext(connection) as queries:
        superuser.get(*address)

    assert len(queries) <= MAX_QUERIES[name]


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("delivery", "No deliveries yet."),
        ("event", "No events yet."),
        ("webhook", "No webhooks yet."),
        ("problem", "No open problems."),
        ("replay", "No replays yet."),
        ("apikey", "No API keys yet."),
        ("auditentry", "No entries yet."),
    ],
)
def test_an_empty_list_says_what_it_will_contain(superuser: Page, model: str, words: str) -> None:
    assert shows(superuser.get(model), words)
    assert not shows(superuser.get(model, q="nobody"), words)
