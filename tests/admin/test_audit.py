"""Audit log in the console: each account sees its own entries, and nobody can change them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.utils import quote
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.support.reading import cells
from webhooks_app.emission import emit
from webhooks_app.models import ApiKey, AuditEntry, Delivery, Event, Webhook
from webhooks_app.models.audit import Actor, Via, acting
from webhooks_app.operations.actors import PROJECT
from webhooks_app.operations.registration import register_webhook, update_webhook
from webhooks_app.operations.sending import send_test_event

from ..support.rows import end_deliveries
from .conftest import DATA, Page, shows, text


def listed(page: Any) -> list[str]:
    return [entry.action for entry in page.context["cl"].result_list]


@pytest.fixture
def paused(webhook: Webhook) -> Webhook:
    """A webhook paused with its owner's key."""
    with acting(Actor(via=Via.API, account=webhook.owner, name="whk_0123456789ab")):
        webhook.pause()
    return webhook


def test_the_list_shows_actor_action_and_way(superuser: Page, paused: Webhook) -> None:
    page = superuser.get("auditentry")

    assert listed(page) == ["webhook.paused"]
    for words in ("webhook paused", "whk_0123456789ab", "API", "paused: 20", f"/webhook/{paused.pk}/change/"):
        assert shows(page, words)


def test_an_entry_has_a_page_with_values_before_and_after(superuser: Page, webhook: Webhook) -> None:
    update_webhook(webhook, description="<b>ours</b>", actor=PROJECT)

    page = superuser.get("auditentry", "change", AuditEntry.objects.get().pk)

    assert cells(text(page), "Before") == ["\N{EN DASH}"]
    assert cells(text(page), "After") == ["<b>ours</b>"]
    assert "<b>ours</b>" not in text(page)
    assert 'name="_save"' not in text(page)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"action": "webhook.paused"}, ["webhook.paused"]),
        ({"via": "api"}, ["webhook.paused"]),
        ({"via": "console"}, []),
        ({"period": "hour"}, ["webhook.resumed", "webhook.paused"]),
        ({"period": "before_day"}, []),
        ({"q": "{webhook}"}, ["webhook.resumed", "webhook.paused"]),
        ({"q": "wh_" + "7" * 32}, []),
        ({"q": "amina"}, ["webhook.resumed", "webhook.paused"]),
    ],
    ids=str,
)
def test_the_list_has_filters_and_search(
    superuser: Page, paused: Webhook, query: dict[str, str], found: list[str]
) -> None:
    paused.resume()

    page = superuser.get("auditentry", **{name: value.format(webhook=paused.pk) for name, value in query.items()})

    assert listed(page) == found


def test_staff_see_only_entries_of_their_account(
    staff: Callable[..., Page], new_webhook: Callable[..., Webhook], paused: Webhook
) -> None:
    page = staff("berta", "view_auditentry")
    new_webhook(page.user).pause()
    entry = AuditEntry.objects.about(paused).get()

    assert [row.owner for row in page.get("auditentry").context["cl"].result_list] == [page.user]
    assert page.get("auditentry", q=paused.pk).context["cl"].result_count == 0
    assert "original" not in (page.get("auditentry", "change", entry.pk).context or {})
    assert staff("carl").get("auditentry").status_code == 403


def test_staff_see_only_the_way_of_other_actors(
    staff: Callable[..., Page], superuser: Page, new_webhook: Callable[..., Webhook]
) -> None:
    page = staff("berta", "view_auditentry", "view_webhook")
    webhook = new_webhook(page.user)
    superuser.post("webhook", "act", webhook.pk, "pause", confirmed="yes")
    entry = AuditEntry.objects.get()

    pages = (
        page.get("auditentry"),
        page.get("auditentry", "change", entry.pk),
        page.get("webhook", "history", webhook.pk),
    )
    for answer in pages:
        assert shows(answer, "console")
        assert not shows(answer, "root")


@pytest.mark.parametrize("view", ["add", "change", "delete"])
def test_the_audit_log_is_read_only(superuser: Page, paused: Webhook, view: str) -> None:
    entry = AuditEntry.objects.get()
    args = () if view == "add" else (entry.pk,)

    assert superuser.post("auditentry", view, *args, post="yes", reason="mine").status_code == 403
    assert superuser.get("auditentry").context["action_form"] is None
    assert AuditEntry.objects.get().reason == ""


def test_the_history_of_a_webhook_shows_its_entries(superuser: Page, paused: Webhook) -> None:
    page = superuser.get("webhook", "history", paused.pk)

    assert shows(page, "webhook paused")
    assert shows(page, "whk_0123456789ab")
    assert f"/auditentry/?q={paused.pk}" in text(page)
    assert f"/webhook/{quote(paused.pk)}/history/" in text(superuser.get("webhook", "change", paused.pk))


def test_changed_choices_are_shown_in_the_language_of_the_page(superuser: Page, webhook: Webhook) -> None:
    webhook.disable("")
    superuser.client.cookies["django_language"] = "de"

    assert shows(superuser.get("webhook", "history", webhook.pk), "Status: aktiv → deaktiviert")
    assert shows(superuser.get("auditentry"), "Status: aktiv → deaktiviert")


def test_the_history_of_a_key_and_of_a_delivery_shows_their_entries(superuser: Page, delivery: Delivery) -> None:
    api_key, _ = ApiKey.objects.make(owner=superuser.user)
    superuser.post("apikey", "change", api_key.pk, name="renamed", scopes=["webhooks:read"])
    end_deliveries(state="given_up")
    superuser.post("delivery", "act", delivery.pk, "redeliver", confirmed="yes")

    history = superuser.get("apikey", "history", api_key.pk)
    assert shows(history, "API key created")
    assert shows(history, "name: \N{EN DASH} → renamed")
    assert shows(superuser.get("delivery", "history", delivery.pk), "delivery redelivered")


@pytest.mark.parametrize(
    ("permissions", "is_own", "owned_by"),
    [(["manage_all_webhooks"], False, "amina"), ([], True, "berta")],
    ids=["anothers", "ones-own"],
)
def test_the_owner_of_a_new_row_is_named(
    staff: Callable[..., Page], owner: Any, permissions: list[str], is_own: bool, owned_by: str
) -> None:
    page = staff("berta", "view_webhook", "view_auditentry", *permissions)
    account = page.user if is_own else owner
    webhook = register_webhook(owner=account, url="https://a.example.com/", event_types=["file.deleted"])
    entry = AuditEntry.objects.get(action="webhook.created")

    shown = [page.get("auditentry"), page.get("webhook", "history", webhook.pk)]

    assert all(shows(answer, f"account: {owned_by}") for answer in shown)
    changes = page.get("auditentry", "change", entry.pk).context["changes"]
    assert ("account", "\N{EN DASH}", owned_by) in [change[:3] for change in changes]


@pytest.mark.parametrize("reader", ["root", "berta"])
def test_an_unknown_account_is_shown_without_its_key(
    superuser: Page, staff: Callable[..., Page], new_webhook: Callable[..., Webhook], owner: Any, reader: str
) -> None:
    page = superuser if reader == "root" else staff("berta", "view_webhook")
    webhook = new_webhook(page.user)
    AuditEntry.objects.write("webhook.changed", webhook, owner_id=owner.pk, changes={"owner_id": [4711, owner.pk]})

    history = page.get("webhook", "history", webhook.pk)

    assert shows(history, f"account: an account → {'amina' if reader == 'root' else 'an account'}")


def test_an_empty_history_shows_a_note(superuser: Page, webhook: Webhook) -> None:
    assert shows(superuser.get("webhook", "history", webhook.pk), "No entries")


def test_keys_deleted_together_have_an_entry_each(superuser: Page) -> None:
    keys = [ApiKey.objects.make(owner=superuser.user)[0] for _ in range(2)]

    superuser.client.post(
        "/admin/webhooks_app/apikey/",
        {"action": "delete_selected", "_selected_action": [key.pk for key in keys], "post": "yes"},
    )

    deleted = AuditEntry.objects.filter(action="api_key.deleted", via="console", actor=superuser.user)
    assert sorted(entry.subject for entry in deleted) == sorted(key.pk for key in keys)
    assert not ApiKey.objects.exists()


def test_the_view_permission_does_not_allow_changes_of_keys(staff: Callable[..., Page]) -> None:
    page = staff("berta", "view_apikey", "view_auditentry")
    api_key, _ = ApiKey.objects.make(owner=page.user, name="ci")
    key = page.get("apikey", "change", api_key.pk)

    assert key.context["page_actions"] == []
    assert 'name="_save"' not in text(key)
    assert page.get("apikey").context["action_form"] is None
    for view, args, form in (
        ("act", (api_key.pk, "revoke"), {"confirmed": "yes"}),
        ("change", (api_key.pk,), {"name": "mine", "scopes": ["events:read"]}),
        ("add", (), {"scopes": ["events:read"]}),
        ("delete", (api_key.pk,), {"post": "yes"}),
    ):
        assert page.post("apikey", view, *args, **form).status_code == 403
    page.act("revoke", api_key, confirmed=True)
    assert list(ApiKey.objects.values_list("name", "revoked_at")) == [("ci", None)]
    assert list(AuditEntry.objects.values_list("action", flat=True)) == ["api_key.created"]


def test_the_queries_of_lists_and_histories_do_not_grow(superuser: Page, webhook: Webhook) -> None:
    addresses = (("auditentry",), ("webhook", "history", webhook.pk))
    for address in addresses:
        superuser.get(*address)  # fills Django's cache of content types
    costs = []
    for more in (2, 60):
        for number in range(more):
            update_webhook(webhook, description=f"{more} {number}", actor=PROJECT)
        for address in addresses:
            with CaptureQueriesContext(connection) as queries:
                superuser.get(*address)
            costs.append(len(queries))

    assert costs[:2] == costs[2:]
    assert max(costs) <= 8


# Routing decisions


def test_an_event_shows_the_routing_decision_for_each_webhook(
    superuser: Page, new_webhook: Callable[..., Webhook], owner: Any
) -> None:
    sent, silent = new_webhook(owner), new_webhook(owner, event_types=["file.uploaded"], url="https://b.example.com/")
    Webhook.objects.update(created_at=timezone.now() - timedelta(hours=1))
    event = emit("file.deleted", DATA, owner=owner)

    page = superuser.get("event", "change", event.pk)

    assert [(row.decision.webhook, row.decision.reason) for row in page.context["decisions"]] == [
        (sent, "sent"),
        (silent, "not_subscribed"),
    ]
    assert shows(page, "It was not subscribed to the type.")
    assert f"/webhook/{silent.pk}/change/" in text(page)
    assert f"/delivery/{event.deliveries.get().pk}/change/" in text(page)


def test_a_deleted_webhook_has_no_link(superuser: Page, event: Event, webhook: Webhook) -> None:
    webhook.soft_delete()

    page = superuser.get("event", "change", event.pk)

    assert f"/webhook/{webhook.pk}/change/" not in text(page)
    assert shows(page, f"{webhook.url} (deleted)")


@pytest.mark.parametrize("missing", ["view_webhook", "view_delivery"])
def test_decisions_need_permissions_for_webhooks_and_deliveries(
    staff: Callable[..., Page], event: Event, missing: str
) -> None:
    permissions = {"view_event", "view_webhook", "view_delivery", "manage_all_webhooks"}

    assert staff("berta", *permissions).get("event", "change", event.pk).context["decisions"]
    assert not staff("carl", *permissions - {missing}).get("event", "change", event.pk).context["decisions"]


def test_staff_of_an_account_see_no_decisions_about_platform_webhooks(
    staff: Callable[..., Page], new_webhook: Callable[..., Webhook]
) -> None:
    page = staff("berta", "view_event", "view_webhook", "view_delivery")
    own, _ = new_webhook(page.user), new_webhook(None)
    event = emit("file.deleted", DATA, owner=page.user)

    shown = page.get("event", "change", event.pk).context["decisions"]

    assert [row.decision.webhook for row in shown] == [own]


def test_a_test_event_shows_its_target(superuser: Page, webhook: Webhook, new_webhook: Any) -> None:
    new_webhook(webhook.owner)
    delivery = send_test_event(webhook, "file.deleted")

    page = superuser.get("event", "change", str(delivery.event_id))

    assert [row.decision.webhook for row in page.context["decisions"]] == [webhook]
