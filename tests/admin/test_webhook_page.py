"""The page of a webhook: its head and its sections."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.utils import quote
from django.urls import reverse
from django.utils import timezone

from tests.support.reading import cells, named, parsed, refused, words
from webhooks_app import emit, registry
from webhooks_app.models import Delivery, QueueEntry, QueueLane, Webhook, WebhookHealth, WorkerProcess
from webhooks_app.operations.actors import PROJECT, StaffMember
from webhooks_app.operations.lifecycle import disable, start_verification
from webhooks_app.operations.sending import send_test_event

from ..support.rows import end_deliveries, make_recovering, unverified
from .conftest import Page, text

LINKS = ["?section=overview", "?section=deliveries", "?section=settings", "?section=verification"]
NOW = timezone.now()
DATA = registry.get("file.deleted").example


def head_of(answer: Any) -> str:
    return str(named(text(answer), "State"))


def make_health(**fields: Any) -> Callable[[Webhook], Any]:
    return lambda webhook: WebhookHealth.objects.create(webhook=webhook, **fields)


def change(**fields: Any) -> Callable[[Webhook], Any]:
    return lambda webhook: Webhook.objects.update(**fields)


FAILED = {"failing_since": NOW, "given_up_since": NOW, "last_given_up_at": NOW, "given_up_count": 1}

STATES: list[Any] = [
    pytest.param(lambda webhook: None, "No requests yet", "open", id="new"),
    pytest.param(make_health(last_success_at=NOW), "Healthy", "good", id="healthy"),
    pytest.param(make_health(**FAILED), "Failing", "bad", id="failing"),
    pytest.param(change(paused_at=NOW), "Paused", "late", id="paused"),
    pytest.param(change(status="pending"), "Not verified yet", "late", id="pending"),
    pytest.param(change(status="failed", status_reason="No answer."), "Verification failed", "bad", id="failed"),
    pytest.param(change(status="disabled", paused_at=NOW), "Disabled", "bad", id="disabled"),
]


@pytest.mark.parametrize(("make", "state", "tone"), STATES)
def test_the_head_begins_with_the_url_and_the_state(
    superuser: Page, webhook: Webhook, make: Callable[[Webhook], Any], state: str, tone: str
) -> None:
    change(status_changed_at=NOW)(webhook)
    make(webhook)

    answer = superuser.get("webhook", "change", webhook.pk)

    head = head_of(answer)
    assert f">{state}<" in head
    assert answer.context["standing"].tone == tone
    assert head.index(webhook.url) < head.index(state)
    assert ("Status since" in head) is (state not in {"Failing", "Paused"})


def test_the_head_shows_the_last_results_and_when_the_webhook_is_disabled(superuser: Page, webhook: Webhook) -> None:
    since = timezone.now() - timedelta(days=2.6)
    failing = {
        "failing_since": since,
        "given_up_since": since,
        "last_given_up_at": timezone.now(),
        "given_up_count": 57,
    }
    make_health(last_success_at=since, **failing)(webhook)

    head = head_of(superuser.get("webhook", "change", webhook.pk))

    assert "Last success" in head
    assert "state=given_up" in head.partition("Last given up")[2]
    assert "unless a delivery succeeds" in head


@pytest.mark.parametrize("number", [0, 2])
def test_the_head_of_a_webhook_whose_events_are_late_leads_to_the_workers(
    superuser: Page, delivery: Delivery, number: int
) -> None:
    now = timezone.now()
    QueueEntry.objects.update(due_at=now - timedelta(hours=1))
    for pid in range(number):
        WorkerProcess.objects.create(id=str(pid), host="a", pid=pid, version="1.0", started_at=now, seen_at=now)

    head = head_of(superuser.get("webhook", "change", delivery.webhook_id))

    assert "Delayed" in head
    assert f'/operations/">{number}<' in head.partition("Running workers")[2]


def test_the_head_offers_the_retry_of_the_event_in_front(superuser: Page, webhook: Webhook) -> None:
    change(order="webhook")(webhook)
    first, _second = (emit("file.deleted", DATA, owner=webhook.owner).deliveries.get() for _ in range(2))
    QueueEntry.objects.filter(pk=first.pk).update(attempt=1, due_at=timezone.now() + timedelta(hours=1))

    head = parsed(head_of(superuser.get("webhook", "change", webhook.pk)))

    link = head.find("a", string="Retry the event in front")["href"]
    assert link == reverse("admin:webhooks_app_delivery_act", args=(quote(first.pk), "retry"))


def test_the_head_leads_to_the_limit_that_holds_back_events(superuser: Page, delivery: Delivery) -> None:
    now = timezone.now()
    change(max_in_flight=1)(delivery.webhook)
    QueueEntry.objects.update(due_at=now - timedelta(hours=1))
    WorkerProcess.objects.create(id="1", host="a", pid=1, version="1.0", started_at=now, seen_at=now)

    head = parsed(head_of(superuser.get("webhook", "change", delivery.webhook_id)))

    assert head.find("a", string="Change the limit")["href"].endswith("?section=settings#id_max_in_flight")


@pytest.mark.parametrize(("is_used_up", "offered"), [(True, "Change the limit"), (False, "See the event in front")])
def test_the_head_offers_either_the_limit_or_the_event_in_front(
    superuser: Page, webhook: Webhook, is_used_up: bool, offered: str
) -> None:
    now = timezone.now()
    change(order="webhook", rate_limit=1)(webhook)
    for _ in range(2):
        emit("file.deleted", DATA, owner=webhook.owner)
    QueueEntry.objects.update(due_at=now - timedelta(hours=1))
    QueueLane.objects.update_or_create(webhook=webhook, defaults={"next_slot_at": now + timedelta(hours=is_used_up)})
    WorkerProcess.objects.create(id="1", host="a", pid=1, version="1.0", started_at=now, seen_at=now)

    head = parsed(head_of(superuser.get("webhook", "change", webhook.pk)))

    limit_or_front = re.compile("limit$|in front$")
    assert [link.text for link in head.find_all("a", string=limit_or_front)] == [offered]
    assert ("rate limit holds back" in head.text) is is_used_up


def test_missed_events_are_sent_after_a_test_event_has_arrived(superuser: Page, webhook: Webhook) -> None:
    since = timezone.now() - timedelta(hours=1)
    make_health(failing_since=since, given_up_since=since, last_given_up_at=since, given_up_count=2)(webhook)
    before = parsed(head_of(superuser.get("webhook", "change", webhook.pk)))
    send_test_event(webhook, event_type="file.deleted", data=DATA, actor=PROJECT)
    end_deliveries(Delivery.objects.filter(kind="test"), state="succeeded", finished_at=timezone.now())
    after = parsed(head_of(superuser.get("webhook", "change", webhook.pk)))

    found = [[link.text for link in each.find_all("a", string=re.compile("^Send"))] for each in (before, after)]
    assert found == [["Send a test event", "Send 2 missed events"], ["Send 2 missed events", "Send a test event"]]
    assert "A test event has arrived." in after.text


def test_settings_are_closed_except_a_section_with_an_error(superuser: Page, webhook: Webhook) -> None:
    shown = parsed(text(superuser.get("webhook", "change", webhook.pk, section="settings")))
    refused = parsed(text(superuser.post("webhook", "change", webhook.pk, url="http://10.0.0.1/")))
    new = parsed(text(superuser.get("webhook", "add")))

    found = [each.select("fieldset > details > summary") for each in (shown, refused, new)]
    names = [[part.text.strip() for part in some] for some in found]
    assert names == [["Where", "What", "How", "Security"], ["How", "Security"], []]


def test_a_filter_is_tried_beside_its_field_and_not_saved(superuser: Page, webhook: Webhook) -> None:
    event = emit("file.deleted", DATA, owner=webhook.owner)
    source = '{"file_id": "file_0"}'
    sent = {"url": webhook.url, "event_types": webhook.event_types, "filter": source, "order": "none"}

    tried = superuser.post("webhook", "change", webhook.pk, **sent, try_filter="1")

    result = named(text(tried), "Result of the filter")
    assert "The filter would have matched 0 of the last 1 event." in result.text
    assert result.find("a")["href"].endswith(f"{event.pk}/change/")
    assert parsed(text(tried)).find("textarea", {"name": "filter"}).text.strip() == source
    assert "$startsWith" in text(tried)
    assert not refused(text(tried))
    assert Webhook.objects.get().filter is None


def test_a_filter_is_tried_on_events_that_the_user_may_view(superuser: Page, staff: Any, webhook: Webhook) -> None:
    editor = staff("editor", "view_webhook", "change_webhook", "manage_all_webhooks")
    sent = {"url": webhook.url, "event_types": webhook.event_types, "filter": '{"file_id": "x"}', "order": "none"}

    offered = [
        'name="try_filter"' in text(page.get("webhook", "change", webhook.pk, section="settings"))
        for page in (superuser, editor)
    ]
    tried = editor.post("webhook", "change", webhook.pk, **sent, try_filter="1")

    assert offered == [True, False]
    assert "would have matched" not in text(tried)
    assert Webhook.objects.get().filter is None


def test_a_running_verification_is_not_offered_again(superuser: Page, webhook: Webhook) -> None:
    unverified(webhook)
    start_verification(webhook, actor=PROJECT)

    head = parsed(head_of(superuser.get("webhook", "change", webhook.pk)))

    assert not head.find("a", string=re.compile("^Verify"))


def test_the_head_names_who_disabled_the_webhook(superuser: Page, webhook: Webhook) -> None:
    disable(webhook, actor=StaffMember(account=superuser.user), reason="Replaced")

    head = words(head_of(superuser.get("webhook", "change", webhook.pk)))

    assert f"({superuser.user}, console)" in head.partition("Disabled since")[2]
    assert "Replaced" in head
    assert "Status since" not in head


def test_the_head_shows_the_next_recovery_attempt(superuser: Page, webhook: Webhook) -> None:
    make_recovering(webhook)

    head = head_of(superuser.get("webhook", "change", webhook.pk))

    assert "The next recovery attempt, with the oldest missed event, is" in head


def test_the_sections_are_links_that_show_only_their_part(superuser: Page, delivery: Delivery) -> None:
    parts = {"overview": "live/recent/", "deliveries": "live/deliveries/", "settings": 'name="url"'}
    parts["verification"] = "live/handshake/"

    pages = {name: superuser.get("webhook", "change", delivery.webhook_id, section=name) for name in parts}

    for shown, page in pages.items():
        assert [section.url for section in page.context["sections"]] == LINKS
        assert [section.url for section in page.context["sections"] if section.is_current] == [f"?section={shown}"]
        assert [name for name, part in parts.items() if part in text(page)] == [shown]
        assert ('name="_save"' in text(page)) is (shown == "settings")


def test_recent_deliveries_have_their_state(superuser: Page, delivery: Delivery) -> None:
    page = text(superuser.get("webhook", "change", delivery.webhook_id))

    assert cells(page.partition("live/recent/")[2], "State") == ["pending"]


@pytest.mark.parametrize("section", ["", "other", "settings "])
def test_an_unknown_section_is_the_overview(superuser: Page, webhook: Webhook, section: str) -> None:
    assert superuser.get("webhook", "change", webhook.pk, section=section).context["section"] == "overview"


def test_a_form_with_errors_is_shown_with_its_section(superuser: Page, webhook: Webhook) -> None:
    answer = superuser.post("webhook", "change", webhook.pk, url="nonsense")

    assert answer.context["section"] == "settings"
    assert "url" in refused(text(answer))


def test_the_section_of_deliveries_needs_the_permission_to_view_them(
    staff: Callable[..., Page], new_webhook: Callable[..., Webhook]
) -> None:
    page = staff("berta", "view_webhook")
    webhook = new_webhook(page.user)

    answer = page.get("webhook", "change", webhook.pk, section="deliveries")

    assert answer.context["section"] == "overview"
    assert "?section=deliveries" not in text(answer)


def test_the_form_has_four_groups_and_only_stored_values_are_kept(superuser: Page, webhook: Webhook) -> None:
    added, changed = (text(page) for page in (superuser.get("webhook", "add"), superuser.settings_of(webhook)))

    for page in (added, changed):
        groups = ("Where", "What", "How", "Security")
        assert tuple(words(each) for each in parsed(page).find_all("h2") if words(each) in groups) == groups
    assert ["keep the current value" in page for page in (added, changed)] == [False, True]
    assert ["schemes stay unchanged" in page for page in (added, changed)] == [False, True]
