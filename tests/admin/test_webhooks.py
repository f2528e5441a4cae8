"""Creation, changes and deletion of webhooks."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.utils import timezone

from tests.support.reading import cells
from webhooks_app.emission import emit
from webhooks_app.event_types import registry
from webhooks_app.models import Delivery, SigningKey, Webhook, WebhookHealth
from webhooks_app.reasons import ReasonText

from ..support.rows import make_problem
from .conftest import DATA, SECRET, Page, shown_messages, shows, text

FORM = {
    "audience": "every",
    "signatures": ["native"],
    "accepted_statuses": "200",
    "url": "https://receiver.example.com/new",
    "event_types": ["file.deleted", "ppt.edit.failed"],
}


def test_a_new_webhook_is_pending_until_its_handshake(superuser: Page, owner: Any) -> None:
    superuser.post("webhook", "add", **FORM | {"audience": "one"}, owner=owner.pk)

    webhook = Webhook.objects.get()
    assert (webhook.owner, webhook.url, webhook.event_types) == (owner, FORM["url"], FORM["event_types"])
    assert webhook.status == Webhook.Status.PENDING
    assert webhook.deliveries.get().kind == Delivery.Kind.VERIFICATION


def test_the_generated_secret_is_shown_once(superuser: Page, owner: Any) -> None:
    answer = superuser.post("webhook", "add", **FORM | {"audience": "one"}, owner=owner.pk)

    secret = Webhook.objects.get().secret
    assert shows(answer, secret)
    assert not shows(superuser.get("webhook"), secret)
    assert not shows(superuser.get("webhook", "change", Webhook.objects.get().pk), secret)
    assert not shows(superuser.settings_of(Webhook.objects.get()), secret)


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({}, "No requests yet"),
        ({"status": "pending"}, "pending"),
        ({"status": "disabled", "status_reason": "By a test."}, "disabled: By a test."),
        ({"paused_at": datetime(2026, 11, 1, tzinfo=UTC)}, "active, paused"),
    ],
)
def test_the_list_shows_the_status(superuser: Page, webhook: Webhook, change: dict[str, Any], status: str) -> None:
    Webhook.objects.update(**change)

    assert cells(text(superuser.get("webhook")), "Status") == [status]


@pytest.mark.parametrize(
    ("failing_since", "shown"),
    [(None, "active"), (datetime(2026, 11, 1, tzinfo=UTC), "Failing")],
    ids=["healthy", "failing"],
)
def test_the_list_shows_which_active_webhooks_are_failing(
    superuser: Page, webhook: Webhook, failing_since: datetime | None, shown: str
) -> None:
    WebhookHealth.objects.create(
        webhook=webhook, last_success_at=timezone.now(), failing_since=failing_since, given_up_since=failing_since
    )

    assert cells(text(superuser.get("webhook")), "Status") == [shown]


def test_an_entered_secret_is_stored_unchanged(superuser: Page) -> None:
    superuser.post("webhook", "add", **FORM, secret=f" {SECRET} ")

    assert Webhook.objects.get().secret == f" {SECRET} "


def test_an_undecryptable_secret_is_explained_on_the_page(superuser: Page, webhook: Webhook) -> None:
    assert shows(superuser.settings_of(webhook), "Stored encrypted; rotate to get a new one.")

    SigningKey.objects.update(encrypted_key="nonsense")

    assert shows(superuser.settings_of(webhook), "Add that key to WEBHOOKS_ENCRYPTION_KEYS again")


def test_the_history_contains_no_secret(superuser: Page) -> None:
    superuser.post("webhook", "add", **FORM, secret=SECRET)
    superuser.act("rotate_secret", Webhook.objects.get(), confirmed=True)

    entries = "".join(f"{entry} {entry.change_message}" for entry in LogEntry.objects.all())
    assert LogEntry.objects.count() == 2
    assert SECRET not in entries
    assert Webhook.objects.get().secret not in entries


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        pytest.param({"url": "ftp://receiver.example.com/"}, "Use https://", id="scheme"),
        pytest.param({"url": "https://10.0.0.1/"}, "10.0.0.1", id="private address"),
        pytest.param({"url": ""}, "This field is required", id="no URL"),
        pytest.param({"event_types": []}, "This field is required", id="no event type"),
        pytest.param({"event_types": ["no.such_type"]}, "Select a valid choice", id="unknown event type"),
        pytest.param({"secret": "short"}, "16 to 256 characters", id="short secret"),
        pytest.param({"audience": ""}, "This field is required", id="no audience"),
        pytest.param({"owner": "nobody"}, "There is no account named “nobody”", id="unknown account"),
        pytest.param({"owner": "root"}, "Leave this empty for a webhook of every account", id="account of every"),
    ],
)
def test_invalid_input_is_an_error_of_its_field(superuser: Page, changes: Any, problem: str) -> None:
    answer = superuser.post("webhook", "add", **FORM | changes)

    [field] = changes
    [error] = answer.context["adminform"].form.errors[field]
    assert problem in error
    assert not Webhook.objects.exists()


@pytest.mark.parametrize("form", [FORM | {"audience": "one"}, {"url": FORM["url"], "event_types": ["file.deleted"]}])
def test_an_empty_field_does_not_create_a_platform_webhook(superuser: Page, form: Any) -> None:
    superuser.post("webhook", "add", **form, owner="")

    assert not Webhook.objects.exists()


def test_an_account_is_chosen_by_name(superuser: Page, owner: Any) -> None:
    page = text(superuser.get("webhook", "add"))
    superuser.post("webhook", "add", **FORM | {"audience": "one"}, owner="amina")

    assert '<option value="amina"></option>' in page
    assert Webhook.objects.get().owner == owner
    assert shows(superuser.get("webhook", "change", Webhook.objects.get().pk), "amina")


def test_a_platform_webhook_is_shown_as_that_of_every_account(superuser: Page) -> None:
    superuser.post("webhook", "add", **FORM)

    assert Webhook.objects.get().owner is None
    assert shows(superuser.get("webhook"), "Every account")
    assert shows(superuser.get("webhook", "change", Webhook.objects.get().pk), "Every account")
    assert shows(superuser.get("delivery", kind="all"), "Every account")


@pytest.mark.parametrize("page", ["webhook", "problem", "receivers", "delivery"])
def test_an_account_without_a_name_is_not_called_every_account(superuser: Page, webhook: Webhook, page: str) -> None:
    make_problem(webhook, 503)
    emit("file.deleted", DATA, owner=webhook.owner)
    type(webhook.owner).objects.filter(pk=webhook.owner.pk).update(username="")

    shown = superuser.get(page, **({"kind": "all"} if page == "delivery" else {}))

    assert webhook.pk in text(shown)
    assert not shows(shown, "Every account")


def test_the_number_of_webhooks_per_owner_is_limited(superuser: Page, webhook: Webhook, settings: Any) -> None:
    settings.WEBHOOKS_MAX_WEBHOOKS_PER_OWNER = 1

    answer = superuser.post("webhook", "add", **FORM | {"audience": "one"}, owner=webhook.owner.pk)

    assert shows(answer, "The limit of 1 for this account")


def test_the_event_types_are_check_boxes_by_group(superuser: Page) -> None:
    page = text(superuser.get("webhook", "add"))

    for name in registry.names():
        assert f'type="checkbox" name="event_types" value="{name}"' in page
    for group in registry.groups():
        assert group in page


def test_a_changed_url_is_verified_again(superuser: Page, webhook: Webhook) -> None:
    before = superuser.settings_of(webhook)
    answer = superuser.post("webhook", "change", webhook.pk, **FORM, owner=webhook.owner.pk)

    assert shows(before, "Events go on to the current URL until a new one is verified.")
    url = webhook.url
    webhook.refresh_from_db()
    assert (webhook.url, webhook.pending_url, webhook.status) == (url, FORM["url"], Webhook.Status.ACTIVE)
    assert webhook.deliveries.get().kind == Delivery.Kind.VERIFICATION
    both = f"Events go to {url} until {FORM['url']} is verified."
    assert shows(answer, both)
    assert shows(answer, "Verification in progress")
    assert shows(superuser.settings_of(webhook), f"{both} Enter the current URL again to keep it.")
    assert shows(superuser.get("webhook"), f"until {FORM['url']} is verified")
    assert shows(superuser.get("webhook", "change", webhook.pk), f"until {FORM['url']} is verified")


def test_a_failed_new_url_is_explained(superuser: Page, webhook: Webhook) -> None:
    superuser.post("webhook", "change", webhook.pk, **FORM, owner=webhook.owner.pk)
    webhook.refresh_from_db()
    webhook.keep_url(ReasonText("challenge_missing"))

    page = superuser.get("webhook", "change", webhook.pk)
    assert shows(page, f"The new URL {FORM['url']} failed its verification, so the webhook keeps its URL.")


def test_a_changed_description_is_not_verified(superuser: Page, webhook: Webhook) -> None:
    form = {"url": webhook.url, "event_types": webhook.event_types, "description": "ours", "owner": webhook.owner.pk}

    superuser.post("webhook", "change", webhook.pk, **form)

    webhook.refresh_from_db()
    assert (webhook.description, webhook.status, webhook.secret) == ("ours", Webhook.Status.ACTIVE, SECRET)
    assert not webhook.deliveries.exists()


def test_a_type_that_left_the_catalogue_can_be_kept(superuser: Page, new_webhook: Callable[..., Webhook]) -> None:
    webhook = new_webhook(None, event_types=["gone.type", "file.deleted"])
    form = {"url": webhook.url, "event_types": webhook.event_types, "description": "changed"}

    assert shows(superuser.get("webhook", "change", webhook.pk), "No longer in the catalogue")
    superuser.post("webhook", "change", webhook.pk, **form)

    webhook.refresh_from_db()
    assert (webhook.description, webhook.event_types) == ("changed", ["gone.type", "file.deleted"])


def test_a_type_that_left_the_catalogue_can_be_removed(superuser: Page, new_webhook: Callable[..., Webhook]) -> None:
    webhook = new_webhook(None, event_types=["gone.type", "file.deleted"])

    superuser.post("webhook", "change", webhook.pk, url=webhook.url, event_types=["file.deleted"])

    webhook.refresh_from_db()
    assert webhook.event_types == ["file.deleted"]


def test_a_deleted_webhook_keeps_its_history(superuser: Page, delivery: Delivery) -> None:
    webhook = delivery.webhook

    page = superuser.get("webhook", "delete", webhook.pk)
    superuser.post("webhook", "delete", webhook.pk, post="yes")

    assert shows(page, webhook.url)
    assert Webhook.objects.get().deleted_at is not None
    assert Delivery.objects.get().state == Delivery.State.CANCELLED
    assert webhook.pk not in text(superuser.get("webhook"))
    assert webhook.url in text(superuser.get("delivery", "change", delivery.pk))


def test_several_are_deleted_at_once(superuser: Page, new_webhook: Callable[..., Webhook]) -> None:
    webhooks = [new_webhook(None), new_webhook(None)]

    superuser.act("delete_selected", *webhooks, post="yes")

    assert not Webhook.objects.existing().exists()


@pytest.mark.parametrize(
    ("term", "is_found"),
    [
        pytest.param("{id}", True, id="its id"),
        pytest.param("receiver.example", True, id="a part of its URL"),
        pytest.param("amina", True, id="its owner"),
        pytest.param("wh_00000000000000000000000000000000", False, id="another id"),
        pytest.param("wh_", False, id="no id"),
        pytest.param("berta", False, id="another account"),
    ],
)
def test_a_webhook_is_found_by_search(superuser: Page, webhook: Webhook, term: str, is_found: bool) -> None:
    page = text(superuser.get("webhook", q=term.format(id=webhook.pk)))

    assert (f'title="{webhook.pk}"' in page) is is_found


def test_user_input_is_escaped(superuser: Page, new_webhook: Callable[..., Webhook]) -> None:
    hostile = "<script>alert(1)</script>"
    webhook = new_webhook(None, description=hostile, url=f"https://x.example.com/{hostile}")
    webhook.disable(hostile)

    pages = [
        superuser.get("webhook"),
        superuser.get("webhook", "change", webhook.pk),
        superuser.settings_of(webhook),
        superuser.get("webhook", "delete", webhook.pk),
        superuser.act("rotate_secret", webhook),
        superuser.act("send_test", webhook, confirmed=True, event_type="file.deleted"),
    ]

    assert [hostile in text(page) for page in pages] == [False] * len(pages)
    assert shows(pages[0], hostile)
    assert any(hostile in message for message in shown_messages(pages[-1]))
