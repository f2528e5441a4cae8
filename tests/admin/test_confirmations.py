"""Confirmations: what they name and count, and the reason that they ask for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.contrib import admin
from django.contrib.admin.models import DELETION, LogEntry
from django.urls import reverse
from django.utils import timezone

from tests.support.reading import breadcrumbs, named
from webhooks_app.emission import emit
from webhooks_app.models import ApiKey, AuditEntry, Delivery, Event, Replay, Webhook
from webhooks_app.operations import replays
from webhooks_app.replays.runner import advance

from ..api.conftest import client_of
from ..support.controls import cancelling, controls_of
from ..support.rows import make_backlog, make_problem, plan_replay, unverified
from .conftest import DATA, Page, shown_messages, shows, text

REASON = "It answers with 500 since Monday."


@pytest.mark.parametrize(
    ("number", "question"),
    [
        pytest.param(1, "Disable this webhook?", id="one"),
        pytest.param(2, "Disable these 2 webhooks?", id="several"),
    ],
)
def test_the_question_has_a_singular_and_names_each_url(
    superuser: Page, new_webhook: Callable[..., Webhook], number: int, question: str
) -> None:
    webhooks = [new_webhook(None, url=f"https://hooks.example.com/{place}") for place in range(number)]

    page = superuser.act("disable", *webhooks)

    assert shows(page, question)
    assert all(shows(page, webhook.url) for webhook in webhooks)


@pytest.mark.parametrize(
    ("action", "sentence"),
    [
        pytest.param("disable", "3 pending deliveries are cancelled.", id="disable"),
        pytest.param("delete_selected", "3 pending deliveries are cancelled.", id="delete"),
        pytest.param("pause", "3 pending deliveries are held.", id="pause"),
    ],
)
def test_pending_deliveries_are_counted(superuser: Page, webhook: Webhook, action: str, sentence: str) -> None:
    make_backlog(webhook, 3)

    assert shows(superuser.act(action, webhook), sentence)


def test_only_so_many_pending_deliveries_are_counted(
    superuser: Page, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webhooks_app.pages.confirmations.MAX_PENDING_COUNTED", 2)
    make_backlog(webhook, 3)

    assert shows(superuser.act("disable", webhook), "More than 2 pending deliveries are cancelled.")


def test_without_pending_deliveries_the_confirmation_says_so(superuser: Page, webhook: Webhook) -> None:
    assert shows(superuser.act("disable", webhook), "No delivery is pending.")


def test_cancelling_a_replay_counts_its_pending_deliveries(superuser: Page, delivery: Delivery) -> None:
    replay = plan_replay(delivery.webhook)
    Delivery.objects.update(replay=replay)
    Replay.objects.update(state=Replay.State.RUNNING)

    page = superuser.act("cancel", replay)

    assert shows(page, "1 pending delivery is cancelled.")
    assert shows(page, delivery.webhook.url)


def test_the_last_use_of_a_key_is_shown_before_it_is_revoked(superuser: Page) -> None:
    api_key, _text = ApiKey.objects.make(owner=superuser.user, name="ci")
    unused = superuser.act("revoke", api_key)
    ApiKey.objects.update(last_used_at=timezone.now() - timedelta(days=1))

    assert shows(unused, "It has never been used.")
    assert "Last used: <time" in text(superuser.act("revoke", api_key))


@pytest.mark.parametrize(
    ("action", "button", "destroys"),
    [
        pytest.param("disable", "Disable", True, id="disable"),
        pytest.param("delete_selected", "Delete", True, id="delete"),
        pytest.param("pause", "Pause", False, id="pause"),
        pytest.param("verify", "Verify", False, id="verify"),
    ],
)
def test_the_button_says_what_it_does_and_warns_if_it_destroys(
    superuser: Page, webhook: Webhook, action: str, button: str, destroys: bool
) -> None:
    page = superuser.act(action, unverified(webhook) if action == "verify" else webhook)

    assert controls_of(text(page), 'name="confirmed"')[0] == button
    assert page.context["is_destructive"] is destroys


def test_the_owner_reads_why_the_operator_disabled_a_webhook(superuser: Page, webhook: Webhook, owner: Any) -> None:
    superuser.act("disable", webhook, confirmed=True, reason=REASON)

    answer = client_of(owner).call("GET", f"/v1/webhooks/{webhook.pk}").json()
    assert answer["status_reason"] == f"Disabled by the operator: {REASON}"
    assert answer["status_reason_code"] == "disabled_by_operator_because"
    entry = AuditEntry.objects.get(action="webhook.disabled")
    assert (entry.reason, entry.actor_name) == (f"Disabled by the operator: {REASON}", "root")
    assert shows(superuser.get("webhook", "change", webhook.pk), f"Disabled by the operator: {REASON}")


@pytest.mark.parametrize("reason", [REASON, ""])
def test_the_reason_of_a_pause_is_kept_and_shown(superuser: Page, webhook: Webhook, reason: str) -> None:
    superuser.act("pause", webhook, confirmed=True, reason=reason)
    page = superuser.get("webhook", "change", webhook.pk)

    assert AuditEntry.objects.get(action="webhook.paused").reason == reason
    assert page.context["status_reason"] == reason


def test_the_reason_of_a_pause_ends_with_it(superuser: Page, webhook: Webhook) -> None:
    superuser.act("pause", webhook, confirmed=True, reason=REASON)
    superuser.act("resume", webhook, confirmed=True)

    assert superuser.get("webhook", "change", webhook.pk).context["status_reason"] == ""


def test_a_reason_that_is_too_long_asks_again(superuser: Page, webhook: Webhook) -> None:
    page = superuser.act("disable", webhook, confirmed=True, reason="x" * 201)

    assert page.context["form"].errors["reason"]
    assert Webhook.objects.get().status == Webhook.Status.ACTIVE


def test_a_webhook_is_deleted_from_its_page_with_a_reason(superuser: Page, webhook: Webhook) -> None:
    asked = superuser.get("webhook", "delete", webhook.pk)
    answer = superuser.post("webhook", "delete", webhook.pk, confirmed="yes", reason=REASON)

    assert shows(asked, "Delete this webhook for good?")
    assert AuditEntry.objects.get(action="webhook.deleted").reason == REASON
    assert LogEntry.objects.get().action_flag == DELETION
    assert shown_messages(answer) == ["Deleted the webhook."]
    assert answer.redirect_chain[-1][0] == "/admin/webhooks_app/webhook/"


@pytest.mark.parametrize(
    ("action", "audited"),
    [
        pytest.param("revoke", "api_key.revoked", id="revoke"),
        pytest.param("delete_selected", "api_key.deleted", id="delete"),
    ],
)
def test_the_reason_for_ending_a_key_is_audited(superuser: Page, action: str, audited: str) -> None:
    api_key, _text = ApiKey.objects.make(owner=superuser.user, name="ci")

    superuser.act(action, api_key, confirmed=True, reason="Leaked.")

    assert AuditEntry.objects.get(action=audited).reason == "Leaked."
    assert LogEntry.objects.get().object_id == str(api_key.pk)


def test_the_owner_reads_why_a_replay_was_cancelled(superuser: Page, missed: Webhook) -> None:
    replay = plan_replay(missed)

    superuser.act("cancel", replay, confirmed=True, reason=REASON)

    assert Replay.objects.get().state_reason == AuditEntry.objects.get(action="replay.cancelled").reason == REASON
    assert shows(superuser.get("replay", "change", replay.pk), REASON)


@pytest.fixture
def missed(webhook: Webhook) -> Webhook:
    """A webhook that missed an event while it was disabled."""
    webhook.disable("Out of order.")
    Webhook.objects.update(created_at=timezone.now() - timedelta(days=1))
    emit("file.deleted", DATA, owner=webhook.owner)
    Webhook.objects.update(status=Webhook.Status.ACTIVE)
    return webhook


def test_missed_events_that_are_still_counted_are_not_called_sent(
    superuser: Page, missed: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replays, "count", lambda *args, **arguments: None)

    answer = superuser.act("send_missed", missed, confirmed=True)

    (message,) = shown_messages(answer)
    assert message == "The missed events are still being counted. They are sent when that is done."
    replay = Replay.objects.get()
    assert replay.state == Replay.State.COUNTING

    advance(replay.alias, replay.pk, timezone.now())  # as a worker does

    replay.refresh_from_db()
    assert (replay.state, replay.matched) == (Replay.State.RUNNING, 1)


def test_the_confirmation_states_how_many_events_were_missed(superuser: Page, missed: Webhook) -> None:
    page = superuser.act("send_missed", missed)

    assert "1 event was missed." in text(page)


def test_events_that_were_not_examined_are_not_counted(
    superuser: Page, missed: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webhooks_app.replays.missed.MOST_READ", 0)

    page = superuser.act("send_missed", missed)

    assert shows(page, "None of the first events was missed. This page has examined no others.")


def test_missed_events_are_sent_to_a_limited_number_of_webhooks(
    superuser: Page, missed: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webhooks_app.admin.replays.MAX_RECOVERED", 0)

    answer = superuser.act("send_missed", missed, confirmed=True)

    assert shown_messages(answer) == ["Select at most 0 webhooks."]
    assert not Replay.objects.exists()


def test_missed_events_that_are_sent_are_called_so(superuser: Page, missed: Webhook) -> None:
    answer = superuser.act("send_missed", missed, confirmed=True)

    assert shown_messages(answer) == ["Started to send the missed events."]
    assert Replay.objects.get().state == Replay.State.RUNNING


def test_no_missed_events_are_called_so_and_nothing_starts(superuser: Page, missed: Webhook) -> None:
    Event.objects.all().delete()

    answer = superuser.act("send_missed", missed, confirmed=True)

    assert shown_messages(answer) == ["No events to send in this period."]
    assert Replay.objects.get().state == Replay.State.DONE
    assert [entry.get_change_message() for entry in LogEntry.objects.filter(object_id=missed.pk)] == [
        "No events to send in this period."
    ]


def test_a_refused_start_leaves_no_plan_behind(superuser: Page, missed: Webhook) -> None:
    other = plan_replay(missed)
    Replay.objects.update(state=Replay.State.RUNNING)

    answer = superuser.act("send_missed", missed, confirmed=True)

    (message,) = shown_messages(answer)
    planned = Replay.objects.exclude(pk=other.pk).get()
    assert message.startswith(f"Replay {other.pk} of this webhook is running.")
    assert (planned.state, str(planned.state_reason)) == (Replay.State.CANCELLED, message)


def confirmations_of(page: Page, items: Sequence[Any]) -> dict[str, str]:
    """Return the confirmation pages of every action on these rows, in their lists and on their pages."""
    found = {}
    for item in items:
        shown: Any = admin.site._registry[type(item)]
        actions = {*shown.actions, *shown.page_actions, "delete_selected"} & {*dir(shown)}
        for action in sorted(actions):
            in_list = page.act(action, item)
            on_page = page.get(item._meta.model_name, "act", item.pk, action) if action in shown.page_actions else None
            for place, answer in (("list", in_list), ("page", on_page)):
                if answer is not None and answer.templates and answer.templates[0].name.endswith("confirm_action.html"):
                    found[f"{item._meta.model_name} {action} {place}"] = text(answer)
    return found


@pytest.mark.parametrize("language", ["en", "de"])
def test_no_confirmation_has_two_buttons_named_cancel(superuser: Page, delivery: Delivery, language: str) -> None:
    api_key, _text = ApiKey.objects.make(owner=superuser.user, name="ci")
    rows = [delivery, delivery.webhook, make_problem(delivery.webhook), plan_replay(delivery.webhook), api_key]
    superuser.client.cookies[settings.LANGUAGE_COOKIE_NAME] = language

    pages = confirmations_of(superuser, rows)
    names = {page: controls_of(html, '<div id="content"') for page, html in pages.items()}

    assert len(pages) > 20  # the states of the rows permit no more
    assert {page for page, found in names.items() if len(found) < 2 or len(set(found)) < len(found)} == set()
    assert {page: found for page, found in names.items() if len(cancelling(found)) > 1} == {}


def test_a_confirmation_leads_back_to_its_row(superuser: Page, webhook: Webhook) -> None:
    page = superuser.get("webhook", "act", webhook.pk, "pause")
    url = reverse("admin:webhooks_app_webhook_change", args=[webhook.pk])

    assert breadcrumbs(text(page)) == ["Home", "Webhooks", "All webhooks", webhook.url, "Pause"]
    assert named(text(page), "Breadcrumbs").find("a", string=webhook.url)["href"] == url
