"""Replays in the console: planned, counted, controlled, and offered after a failure."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import quote
from django.contrib.auth import get_user_model
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from webhooks_app.admin import webhook_page
from webhooks_app.emission import emit
from webhooks_app.models import Delivery, DeliveryAttempt, Event, Replay, Webhook, WebhookHealth
from webhooks_app.replays.runner import advance

from ..support.reading import parsed
from ..support.rows import end_deliveries, plan_replay
from .conftest import DATA, Page, shown_messages, shows, text

FORM = {"states": ["missed", "given_up", "cancelled"]}
MAX_QUERIES = 14


@pytest.fixture
def missed(webhook: Webhook) -> Event:
    Webhook.objects.update(created_at=timezone.now() - timedelta(days=1))
    webhook.refresh_from_db()
    event = emit("file.deleted", DATA, owner=webhook.owner)
    event.deliveries.all().delete()
    return event


@pytest.fixture
def replay(webhook: Webhook, missed: Event) -> Replay:
    return plan_replay(webhook)


def plan(page: Page, webhook: Webhook, **fields: Any) -> Any:
    return page.post("replay", "add", webhook=webhook.pk, **{**FORM, **fields})


def steer(page: Page, replay: Replay, verb: str) -> Any:
    return page.post("replay", "act", replay.pk, verb, confirmed="yes", _selected_action=replay.pk)


def test_the_form_counts_without_sending(superuser: Page, webhook: Webhook, missed: Event) -> None:
    page = plan(superuser, webhook, event_types=["file.deleted"], rate="5")

    replay = Replay.objects.get()
    assert shows(page, "1 event would be sent.")
    assert shows(page, missed.pk)
    assert (replay.event_types, replay.rate, replay.requested_by) == (["file.deleted"], 5, superuser.user)
    assert LogEntry.objects.get().object_id == replay.pk
    assert not Delivery.objects.exists()


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"webhook": "wh_unknown"}, "No webhook with this ID is visible to you"),
        ({"since": "2026-02-01T00:00:00", "until": "2026-01-01T00:00:00"}, "Give a time after 2026-"),
        ({"event_types": ["file.uploaded"]}, "is not subscribed to: file.uploaded."),
        ({"states": []}, "This field is required"),
        ({"rate": "0"}, "greater than or equal to 0.1"),
    ],
    ids=["webhook", "time", "type", "state", "rate"],
)
def test_an_impossible_replay_is_an_error_of_the_form(
    superuser: Page, webhook: Webhook, fields: dict[str, Any], says: str
) -> None:
    assert shows(superuser.post("replay", "add", **{"webhook": webhook.pk, **FORM, **fields}), says)
    assert not Replay.objects.exists()


def test_it_is_started_paused_resumed_and_cancelled_by_its_buttons(superuser: Page, replay: Replay) -> None:
    offered, states = [], []
    for verb in ("start", "pause", "resume", "cancel"):
        offered.append([button.label for button in superuser.get("replay", "change", replay.pk).context["steps"]])
        steer(superuser, replay, verb)
        replay.refresh_from_db()
        states.append(replay.state)

    assert states == ["running", "paused", "running", "cancelled"]
    assert offered == [
        ["Start", "Cancel the replay"],
        ["Pause", "Cancel the replay"],
        ["Resume", "Cancel the replay"],
        ["Pause", "Cancel the replay"],
    ]
    assert superuser.get("replay", "change", replay.pk).context["steps"] == []


def test_the_start_needs_confirmation(superuser: Page, replay: Replay) -> None:
    assert shows(superuser.get("replay", "act", replay.pk, "start"), "Each is sent once")
    replay.refresh_from_db()
    assert replay.state == "ready"


def test_the_live_part_shows_the_progress(superuser: Page, replay: Replay) -> None:
    replay.start()
    running = text(superuser.get("replay", "live", replay.pk))
    advance("default", replay.pk, timezone.now())
    done = superuser.get("replay", "live", replay.pk)

    assert "0 of 1 queued" in running
    assert "data-done" not in running
    assert "data-done" not in text(done)  # the delivery is still under way
    assert shows(done, "Done: all events found are queued.")
    assert shows(done, "1 pending")
    listed = superuser.get("delivery", q=replay.pk).context["cl"].result_list
    assert [delivery.replay for delivery in listed] == [replay]


def test_the_pending_deliveries_are_followed_for_some_minutes(superuser: Page, replay: Replay) -> None:
    def live() -> str:
        return text(superuser.get("replay", "live", replay.pk))

    replay.start()
    running = live()
    advance("default", replay.pk, timezone.now())
    ended = live()
    Replay.objects.update(finished_at=timezone.now() - timedelta(minutes=6))
    later = live()

    assert ['data-seconds="3"' in running, 'data-seconds="20"' in ended, "data-seconds" in later] == [True, True, False]
    assert ["data-done" in page for page in (running, ended, later)] == [False, False, True]
    assert ["no longer refreshed" in page for page in (running, ended, later)] == [False, False, True]


def answer_with(delivery: Delivery, body: str, state: str = "succeeded", status: int = 200) -> None:
    facts = {"url": delivery.webhook.url, "result": "succeeded" if status == 200 else "http_status"}
    answer = {"response_status": status, "duration_ms": 47, "response_body": body}
    DeliveryAttempt.objects.create(delivery=delivery, number=1, started_at=timezone.now(), **facts, **answer)
    Delivery.objects.filter(pk=delivery.pk).update(attempt_count=1, state=state, last_result=facts["result"])


def test_the_latest_answer_is_shown_while_it_runs_and_after_it(superuser: Page, replay: Replay) -> None:
    live = f"/admin/webhooks_app/replay/{quote(replay.pk)}/live/"
    steer(superuser, replay, "start")
    assert "Latest answer" not in text(superuser.client.get(live))
    advance("default", replay.pk, timezone.now())
    queued = text(superuser.client.get(live))

    answer_with(replay.deliveries.get(), "thank you", status=503, state="pending")
    waiting = superuser.client.get(live)
    Delivery.objects.update(state="succeeded")
    final = superuser.get("replay", "change", replay.pk)

    assert "data-done" not in queued + text(waiting)  # the last deliveries are still on their way
    assert "data-done" in text(final)
    for page in (waiting, final):
        assert all(shows(page, words) for words in ("Status 503", "47\xa0ms", "thank you", replay.deliveries.get().pk))


def test_the_latest_answer_is_for_users_who_may_view_deliveries(
    staff: Callable[..., Page], superuser: Page, replay: Replay
) -> None:
    page = staff("berta", "manage_all_webhooks", "view_replay")
    delivery = Delivery.objects.queue(event=Event.objects.get(), webhook=replay.webhook, replay=replay)
    answer_with(delivery, "thank you")

    shown = [shows(each.get("replay", "change", replay.pk), "thank you") for each in (page, superuser)]

    assert shown == [False, True]


def test_the_heading_contains_no_changing_state(superuser: Page, replay: Replay) -> None:
    replay.start()

    page = superuser.get("replay", "change", replay.pk)

    assert f"<h1>{replay.pk}</h1>" in text(page)


def test_a_stopped_replay_shows_the_reason(superuser: Page, replay: Replay, webhook: Webhook) -> None:
    replay.start()
    webhook.disable("Out of order.")
    advance("default", replay.pk, timezone.now())

    assert shows(superuser.get("replay", "change", replay.pk), "The webhook was disabled. Enable it, then resume.")
    assert "Out of order." in " ".join(shown_messages(steer(superuser, replay, "resume")))


def test_a_webhook_links_to_its_missed_events(superuser: Page, webhook: Webhook, missed: Event) -> None:
    buttons = superuser.get("webhook", "change", webhook.pk).context["page_actions"]
    assert "Replay events" in [button.label for button in buttons]

    form = superuser.get("webhook", "act", webhook.pk, "replay_missed").context["form"]

    assert form["webhook"].value() == webhook.pk
    assert [name for _, names in form.fields["event_types"].choices for name, _ in names] == ["file.deleted"]
    since = timezone.localtime(webhook.created_at)
    assert form["since"].value() == since.strftime("%Y-%m-%dT%H:%M:%S")


def test_enabling_several_webhooks_offers_their_replays(superuser: Page, webhook: Webhook, new_webhook: Any) -> None:
    webhooks = [webhook, new_webhook(webhook.owner)]
    for each in webhooks:
        each.disable("Out of order.")

    messages = shown_messages(superuser.act("enable", *webhooks, confirmed=True))

    assert "Replay events" in " ".join(messages)
    assert all(f"/replay/add/?webhook={each.pk}" in " ".join(messages) for each in webhooks)


def test_after_its_verification_the_missed_events_are_offered_with_their_number(
    superuser: Page, webhook: Webhook
) -> None:
    webhook.disable("Out of order.")
    Webhook.objects.update(created_at=timezone.now() - timedelta(days=1))
    for _ in range(2):
        emit("file.deleted", DATA, owner=webhook.owner)
    answer = superuser.act("enable", webhook, confirmed=True)
    assert answer.redirect_chain[-1][0].endswith(f"/webhook/{quote(webhook.pk)}/change/?section=verification")
    assert "were missed" not in text(answer)
    end_deliveries(state="succeeded")
    Webhook.objects.update(status="active")

    part = text(superuser.get("webhook", "live", webhook.pk, "handshake"))
    sent = superuser.post("webhook", "act", webhook.pk, "send_missed", confirmed="yes")

    assert "2 events were missed." in part
    assert f"/webhook/{quote(webhook.pk)}/act/send_missed/" in part
    replay = Replay.objects.get()
    assert sent.redirect_chain[-1][0].endswith(f"/replay/{replay.pk}/change/")
    assert (replay.state, replay.matched) == ("running", 2)


def test_missed_events_are_offered_if_the_verification_ends_while_the_page_is_made(
    superuser: Page, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    webhook.disable("Out of order.")
    Webhook.objects.update(created_at=timezone.now() - timedelta(days=1))
    emit("file.deleted", DATA, owner=webhook.owner)
    superuser.act("enable", webhook, confirmed=True)
    read = webhook_page.latest_handshake

    def read_after_its_end(*args: Any, **kwargs: Any) -> Any:
        end_deliveries(state="succeeded")
        Webhook.objects.update(status="active")
        return read(*args, **kwargs)

    monkeypatch.setattr(webhook_page, "latest_handshake", read_after_its_end)

    page = text(superuser.get("webhook", "change", webhook.pk, section="verification"))

    assert "1 event was missed." in page
    assert "Not verified yet" not in page


def test_events_that_were_not_examined_are_offered_too(
    superuser: Page, webhook: Webhook, missed: Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    WebhookHealth.objects.update_or_create(webhook=webhook, defaults={"given_up_since": timezone.now()})
    monkeypatch.setattr("webhooks_app.replays.missed.MOST_READ", 0)

    part = superuser.get("webhook", "live", webhook.pk, "handshake")

    assert shows(part, "None of the first events was missed.")
    assert parsed(text(part)).find("button", string="Send the missed events")


def test_missed_events_are_offered_only_to_users_who_may_replay(staff: Callable[..., Page], new_webhook: Any) -> None:
    page = staff("berta", "view_webhook", "view_delivery", "change_webhook")
    webhook = new_webhook(page.user)
    Webhook.objects.update(created_at=timezone.now() - timedelta(days=1), status="disabled")
    emit("file.deleted", DATA, owner=webhook.owner)
    page.act("enable", webhook, confirmed=True)
    end_deliveries(state="succeeded")
    Webhook.objects.update(status="active")

    part = text(page.get("webhook", "live", webhook.pk, "handshake"))

    assert "missed" not in part
    assert page.post("webhook", "act", webhook.pk, "send_missed", confirmed="yes").status_code == 403


def test_replays_need_a_permission(staff: Callable[..., Page], new_webhook: Any) -> None:
    page = staff("berta", "view_replay", "view_webhook", "change_webhook")
    webhook = new_webhook(page.user)
    replay = plan_replay(webhook)
    webhook.disable("Out of order.")

    assert page.get("replay", "change", replay.pk).context["steps"] == []
    assert page.get("replay", "add").status_code == 403
    assert page.get("webhook", "act", webhook.pk, "replay_missed").status_code == 403
    assert steer(page, replay, "start").status_code == 403
    assert not any("missed" in message for message in shown_messages(page.act("enable", webhook, confirmed=True)))


def test_staff_replay_only_their_own_webhooks(staff: Callable[..., Page], replay: Replay, new_webhook: Any) -> None:
    page = staff("berta", "replay_webhook")
    own = new_webhook(page.user)

    assert shows(plan(page, replay.webhook), "No webhook with this ID is visible to you")
    assert page.get("replay", "live", replay.pk).status_code == 404
    assert plan(page, own).context["original"] == Replay.objects.get(webhook=own)
    assert [row.webhook for row in page.get("replay").context["cl"].result_list] == [own]


def test_without_any_permission_nothing_is_shown(staff: Callable[..., Page], replay: Replay) -> None:
    page = staff("berta", "view_webhook", "manage_all_webhooks")

    for name, args in (("changelist", ()), ("change", (replay.pk,)), ("live", (replay.pk,))):
        assert page.get("replay", name, *args).status_code == 403


@pytest.mark.parametrize("page", ["changelist", "change"])
def test_only_users_who_manage_all_see_who_planned_a_replay(
    superuser: Page, staff: Callable[..., Page], new_webhook: Callable[..., Webhook], page: str
) -> None:
    amina = staff("amina", "view_replay")
    planner = get_user_model().objects.create_user("magda")
    replay = plan_replay(new_webhook(amina.user), requested_by=planner)
    args = () if page == "changelist" else (replay.pk,)

    assert "magda" in text(superuser.get("replay", page, *args))
    assert "magda" not in text(amina.get("replay", page, *args))


@pytest.mark.parametrize("page", ["changelist", "change", "live"])
def test_the_number_of_queries_is_independent_of_the_deliveries(superuser: Page, replay: Replay, page: str) -> None:
    replay.start()
    advance("default", replay.pk, timezone.now())
    args = () if page == "changelist" else (replay.pk,)
    for _ in range(3):
        plan_replay(replay.webhook)

    with CaptureQueriesContext(connection) as queries:
        superuser.get("replay", page, *args)

    assert len(queries) <= MAX_QUERIES


def test_the_page_of_a_delivery_links_to_its_replay(superuser: Page, replay: Replay) -> None:
    replay.start()
    advance("default", replay.pk, timezone.now())

    assert shows(superuser.get("delivery", "change", Delivery.objects.get().pk), replay.pk)


@pytest.mark.parametrize(
    ("created", "asked", "words"),
    [
        pytest.param(1, 2, "moved to the creation of the webhook", id="creation"),
        pytest.param(90, 60, "Events can be sent for 30 days.", id="retention"),
        pytest.param(90, 1, "", id="kept"),
    ],
)
def test_a_plan_that_begins_later_than_asked_says_so(
    superuser: Page, webhook: Webhook, created: int, asked: int, words: str
) -> None:
    now = timezone.now()
    Webhook.objects.update(created_at=now - timedelta(days=created))
    since = timezone.localtime(now - timedelta(days=asked)).strftime("%Y-%m-%dT%H:%M:%S")

    answer = superuser.post("replay", "add", webhook=webhook.pk, since=since, states=["missed"])

    found = " ".join(shown_messages(answer))
    assert words in found if words else found == ""


def test_after_a_recovery_the_console_shows_it(superuser: Page, webhook: Webhook, missed: Event) -> None:
    first = Delivery.objects.create(event=missed, webhook=webhook, state="given_up", finished_at=timezone.now())
    replay = plan_replay(webhook, since=timezone.now() - timedelta(hours=1))
    replay.start()
    advance("default", replay.pk, timezone.now())
    again = Delivery.objects.get(replay=replay)
    end_deliveries(Delivery.objects.filter(pk=again.pk), state="succeeded", finished_at=timezone.now())

    page = text(superuser.get("replay", "live", replay.pk))
    listed = superuser.get("delivery", state="given_up")
    still = superuser.get("delivery", missed="true").context["cl"].result_list

    assert "Done: 1 of 1 delivered." in page
    assert "<td>succeeded</td>" in page
    assert re.search(rf'{again.pk[4:]}[^>]*">delivered ', text(listed))
    assert [row.pk for row in listed.context["cl"].result_list] == [first.pk]
    assert list(still) == []


def test_a_replay_that_cannot_start_says_so_before_it_counts(superuser: Page, webhook: Webhook) -> None:
    Webhook.objects.update(status="failed", status_reason="No answer.")

    page = superuser.get("replay", "add", webhook=webhook.pk)

    assert shows(page, "failed its verification")
    assert webhook.pk in text(page)
