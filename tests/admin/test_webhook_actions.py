"""Actions: verify, test, disable, enable and rotate."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.urls import include, path, reverse
from django.utils import timezone

from webhooks_app.models import AuditEntry, Delivery, PortalLink, Webhook
from webhooks_app.portal.webhooks import WebhookPage

from ..support.rows import unverified
from .conftest import SECRET, Page, shown_messages, shows, text

PERMISSIONS = {
    "verify": "verify_webhook",
    "send_test": "test_webhook",
    "pause": "pause_webhook",
    "resume": "pause_webhook",
    "disable": "change_webhook",
    "enable": "change_webhook",
    "rotate_secret": "rotate_webhook_secret",
    "activate_secret": "rotate_webhook_secret",
    "withdraw_secret": "rotate_webhook_secret",
    "revoke_previous_secret": "rotate_webhook_secret",
    "delete_selected": "delete_webhook",
}
WITH_A_PAGE = {"link_to_pages", "replay_missed", "send_missed", "try_filter"}
"""Actions that lead to a page, which has its own tests of permissions."""


class OwnWebhookPage(WebhookPage):
    """A page that a project has replaced, as in the guide."""

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(**kwargs) | {"title": "Integration"}


def make_ready(webhook: Webhook, action: str) -> None:
    """Put a webhook into the state required by an action."""
    if action == "enable":
        webhook.disable("by hand")
    elif action == "resume":
        webhook.pause()
    elif action == "revoke_previous_secret":
        webhook.rotate_secret()
    elif action in ("activate_secret", "withdraw_secret"):
        webhook.rotate_secret(activate_at=timezone.now() + timedelta(hours=1))
    elif action == "verify":
        unverified(webhook)


def test_verify_starts_a_handshake(superuser: Page, webhook: Webhook) -> None:
    answer = superuser.act("verify", unverified(webhook), confirmed=True)

    assert shown_messages(answer) == ["Started the verification."]
    assert webhook.deliveries.get().kind == Delivery.Kind.VERIFICATION


def test_a_test_event_needs_a_type(superuser: Page, webhook: Webhook) -> None:
    page = superuser.act("send_test", webhook)
    assert 'name="event_type"' in text(page)
    assert not webhook.deliveries.exists()

    superuser.act("send_test", webhook, confirmed=True, event_type="ppt.edit.failed")
    delivery = webhook.deliveries.get()
    assert (delivery.kind, delivery.event_type) == (Delivery.Kind.TEST, "ppt.edit.failed")


def test_the_default_type_of_a_test_event_is_subscribed(superuser: Page, webhook: Webhook) -> None:
    Webhook.objects.update(event_types=["user.registered"])

    form = superuser.act("send_test", webhook).context["form"]

    assert form["event_type"].value() == "user.registered"
    assert "username" in form["event_data"].value()


def test_a_test_event_of_an_unknown_type_asks_again(superuser: Page, webhook: Webhook) -> None:
    page = superuser.act("send_test", webhook, confirmed=True, event_type="no.such_type")

    assert shows(page, "Select a valid choice")
    assert not webhook.deliveries.exists()


def test_a_paused_webhook_holds_deliveries_until_resumed(superuser: Page, delivery: Delivery) -> None:
    assert shows(superuser.act("pause", delivery.webhook), "Events queue up")
    assert Webhook.objects.get().paused_at is None

    superuser.act("pause", delivery.webhook, confirmed=True)
    paused = Webhook.objects.get()
    superuser.act("resume", delivery.webhook, confirmed=True)

    assert paused.paused_at is not None
    assert Webhook.objects.get().paused_at is None
    assert Delivery.objects.get().state == Delivery.State.PENDING


def test_disabling_cancels_pending_deliveries_after_confirmation(superuser: Page, delivery: Delivery) -> None:
    page = superuser.act("disable", delivery.webhook)
    assert shows(page, "1 pending delivery is cancelled.")
    assert Webhook.objects.get().status == Webhook.Status.ACTIVE

    superuser.act("disable", delivery.webhook, confirmed=True)
    webhook = Webhook.objects.get()
    assert (webhook.status, webhook.status_reason) == (Webhook.Status.DISABLED, "Disabled by the operator.")
    assert Delivery.objects.get().state == Delivery.State.CANCELLED
    entry = AuditEntry.objects.filter(action="webhook.disabled").get()
    assert (entry.actor_name, entry.reason) == ("root", "Disabled by the operator.")


def test_disabling_by_the_owner_differs_from_the_operator(
    staff: Callable[..., Page], new_webhook: Callable[..., Webhook]
) -> None:
    page = staff("amina", "view_webhook", "change_webhook")

    page.act("disable", new_webhook(page.user), confirmed=True)

    assert Webhook.objects.get().status_reason == "Disabled by its account."


def test_disabling_twice_keeps_the_reason_and_sends_no_notice(superuser: Page, webhook: Webhook) -> None:
    webhook.disable("It failed for days.")
    number_told = AuditEntry.objects.count()

    answer = superuser.act("disable", webhook, confirmed=True)

    assert shown_messages(answer) == [f"Webhook {webhook.pk} is already disabled."]
    assert Webhook.objects.get().status_reason == "It failed for days."
    assert AuditEntry.objects.count() == number_told


def test_enable_verifies_again(superuser: Page, webhook: Webhook) -> None:
    webhook.disable("by hand")

    superuser.act("enable", webhook, confirmed=True)

    webhook.refresh_from_db()
    assert webhook.status == Webhook.Status.PENDING
    assert webhook.deliveries.get().kind == Delivery.Kind.VERIFICATION


def test_enabling_an_enabled_webhook_is_refused(superuser: Page, webhook: Webhook) -> None:
    answer = superuser.act("enable", webhook, confirmed=True)

    assert shown_messages(answer) == [f"Webhook {webhook.pk} is not disabled; there is nothing to enable."]
    assert not webhook.deliveries.exists()


def test_a_rotated_secret_is_shown_once(superuser: Page, webhook: Webhook) -> None:
    assert shows(superuser.act("rotate_secret", webhook), "Create a new secret?")

    answer = superuser.act("rotate_secret", webhook, confirmed=True)

    webhook.refresh_from_db()
    assert webhook.secret != SECRET
    assert shows(answer, webhook.secret)
    assert not shows(superuser.get("webhook"), webhook.secret)


def test_a_link_to_the_pages_of_the_customer_is_shown_and_audited(superuser: Page, webhook: Webhook) -> None:
    assert shows(superuser.act("link_to_pages", webhook), "once, for an hour, without a login")

    answer = superuser.act("link_to_pages", webhook, confirmed=True, rights="read,manage", minutes="60")
    url, customer = answer.context["secret"].removeprefix("http://testserver"), Client()
    customer.get(url)

    assert shows(answer, answer.context["secret"])
    assert shows(superuser.client.get(answer.request["PATH_INFO"]), "It has already been shown")  # a reload
    assert customer.post(url).headers["Location"] == f"/webhooks/{webhook.owner_id}/webhooks/{webhook.pk}/"
    created = AuditEntry.objects.filter(action="portal_link.created").get()
    assert (created.owner_id, created.actor_name, created.via) == (webhook.owner_id, "root", "console")
    assert created.changes == {"rights": [None, ["read", "manage"]]}


def test_a_form_for_a_link_that_is_sent_twice_creates_one(superuser: Page, webhook: Webhook) -> None:
    form = {"rights": "read", "minutes": "15", "submission": "a token of the form", "action": "link_to_pages"}
    post = {"confirmed": "yes", "_selected_action": webhook.pk, **form}
    answers = [superuser.client.post(reverse("admin:webhooks_app_webhook_changelist"), post) for _ in range(2)]

    assert answers[0].headers["Location"] == answers[1].headers["Location"]
    assert PortalLink.objects.count() == 1
    assert shows(superuser.client.get(answers[1].headers["Location"]), "http://testserver/webhooks/link/lnk_")


def test_a_link_is_shown_only_to_those_who_may_create_it(
    superuser: Page, staff: Callable[..., Page], new_webhook: Callable[..., Webhook]
) -> None:
    page = staff("amina", "view_webhook")
    own, foreign = new_webhook(page.user), new_webhook(superuser.user)

    statuses = [
        page.client.get(reverse("admin:webhooks_app_webhook_link", args=(pk, "token"))).status_code
        for pk in (own.pk, foreign.pk, "wh_" + "0" * 32)
    ]

    assert statuses == [403, 404, 404]


@pytest.mark.parametrize(("argument", "created"), [("owner", 1), ("account", 0)])
def test_a_link_opens_a_replaced_page_whose_url_names_the_owner(
    superuser: Page, webhook: Webhook, settings: Any, argument: str, created: int
) -> None:
    settings.ROOT_URLCONF = (
        path(f"webhooks/<str:{argument}>/webhooks/<str:pk>/", OwnWebhookPage.as_view()),
        path("", include("tests.urls")),
    )

    answer = superuser.act("link_to_pages", webhook, confirmed=True, rights="read", minutes="15")

    assert PortalLink.objects.count() == created
    if created:
        url, customer = answer.context["secret"].removeprefix("http://testserver"), Client()
        customer.get(url)
        assert "Integration" in customer.post(url, follow=True).text
    else:
        assert shown_messages(answer) == [
            "The URL of the webhook's page, which your project has replaced, has no argument with the name owner."
        ]


def test_a_link_gives_no_more_than_its_creator_may_do(
    staff: Callable[..., Page], new_webhook: Callable[..., Webhook]
) -> None:
    page = staff("amina", "view_webhook", "view_delivery", "view_event", "add_portallink")
    webhook = new_webhook(page.user)

    refused = page.act("link_to_pages", webhook, confirmed=True, rights="read,manage", minutes="15")
    assert shown_messages(refused) == ["This requires the permission webhooks_app.change_webhook."]
    assert not PortalLink.objects.exists()
    page.act("link_to_pages", webhook, confirmed=True, rights="read", minutes="15")
    assert PortalLink.objects.get().rights == ["read"]


def test_a_link_is_offered_to_those_who_may_and_not_for_the_platform(
    superuser: Page, staff: Callable[..., Page], new_webhook: Callable[..., Webhook]
) -> None:
    page = staff("amina", "view_webhook", "view_delivery", "view_event", "change_webhook")
    own, of_platform = new_webhook(page.user), new_webhook(None)

    page.act("link_to_pages", own, confirmed=True, rights="read", minutes="15")
    offered = ["link_to_pages" in text(superuser.get("webhook", "change", each.pk)) for each in (own, of_platform)]

    assert not PortalLink.objects.exists()
    assert "link_to_pages" not in text(page.get("webhook", "change", own.pk))
    assert offered == [True, False]


def test_a_rotation_submitted_twice_rotates_once(superuser: Page, webhook: Webhook) -> None:
    shown = superuser.act("rotate_secret", webhook).context["form"]
    form = {"replaces_native": shown["replaces_native"].value()}
    superuser.act("rotate_secret", webhook, confirmed=True, **form)
    webhook.refresh_from_db()

    answer = superuser.act("rotate_secret", webhook, confirmed=True, **form)

    assert shown_messages(answer) == [
        f"The secret of webhook {webhook.pk} was rotated in the meantime. It has not been replaced."
    ]
    saved = Webhook.objects.get()
    assert (saved.secret, saved.previous_key("native").key) == (webhook.secret, SECRET)


@pytest.mark.parametrize(("hours", "expected"), [("", 24), ("0.5", 0.5), ("0", None)])
def test_the_old_secret_signs_during_the_overlap(
    superuser: Page, webhook: Webhook, hours: str, expected: float | None
) -> None:
    superuser.act("rotate_secret", webhook, confirmed=True, overlap_hours=hours)

    until = Webhook.objects.get().previous_secret_until
    found = until and (until - timezone.now()) / timedelta(hours=1)
    assert found == (expected and pytest.approx(expected, abs=0.1))


@pytest.mark.parametrize("hours", ["-1", "169", "nan", "soon"])
def test_an_invalid_overlap_is_refused(superuser: Page, webhook: Webhook, hours: str) -> None:
    page = superuser.act("rotate_secret", webhook, confirmed=True, overlap_hours=hours)

    assert page.context["form"].errors["overlap_hours"]
    assert Webhook.objects.get().secret == SECRET


def test_the_rotation_form_has_the_default_overlap(superuser: Page, webhook: Webhook) -> None:
    assert 'name="overlap_hours" value="24"' in text(superuser.act("rotate_secret", webhook))


def test_an_old_secret_is_expired(superuser: Page, webhook: Webhook) -> None:
    webhook.rotate_secret()

    answer = superuser.act("revoke_previous_secret", webhook, confirmed=True)

    assert shown_messages(answer) == ["Expired the old secret."]
    assert Webhook.objects.get().previous_secret_until is None


@pytest.mark.parametrize(
    ("action", "message", "signs_new"),
    [
        ("activate_secret", "Activated the new secret.", True),
        ("withdraw_secret", "Withdrew the new secret.", False),
    ],
)
def test_a_prepared_secret_is_activated_or_withdrawn(
    superuser: Page, webhook: Webhook, action: str, message: str, signs_new: bool
) -> None:
    shown = superuser.act("rotate_secret", webhook, confirmed=True, start="prepared")
    prepared = Webhook.objects.get()
    new = prepared.prepared_key("native").key
    assert prepared.secret == SECRET
    assert shows(shown, new)
    page = text(superuser.get("webhook", "change", webhook.pk))
    assert all(words in page for words in ("/withdraw_secret/", "New secret is activated"))

    answer = superuser.act(action, webhook, confirmed=True)

    assert shown_messages(answer) == [message]
    assert Webhook.objects.get().secret == (new if signs_new else SECRET)
    page = text(superuser.get("webhook", "change", webhook.pk))
    assert not [words for words in ("/withdraw_secret/", "New secret is activated") if words in page]


def test_secrets_are_rotated_one_at_a_time(superuser: Page, new_webhook: Callable[..., Webhook]) -> None:
    webhooks = [new_webhook(None), new_webhook(None)]

    answer = superuser.act("rotate_secret", *webhooks, confirmed=True)

    assert shown_messages(answer) == ["Select a single webhook: its new secret is shown only once."]
    assert {webhook.secret for webhook in Webhook.objects.all()} == {SECRET}


def test_a_refused_row_does_not_prevent_the_others(superuser: Page, new_webhook: Callable[..., Webhook]) -> None:
    disabled, pending = new_webhook(None), unverified(new_webhook(None))
    disabled.disable("by hand")

    answer = superuser.act("verify", disabled, pending, confirmed=True)

    assert any("is disabled. Enable it first. Reason: by hand" in message for message in shown_messages(answer))
    assert Delivery.objects.get().webhook == pending


def test_a_selection_above_the_limit_is_refused(
    superuser: Page, new_webhook: Callable[..., Webhook], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webhooks_app.admin.actions.MAX_SELECTED", 1)

    answer = superuser.act("verify", new_webhook(None), new_webhook(None), confirmed=True)

    assert shown_messages(answer) == ["Select at most 1 at once."]
    assert not Delivery.objects.exists()


def test_an_action_is_recorded_in_the_history(superuser: Page, webhook: Webhook) -> None:
    superuser.act("verify", unverified(webhook), confirmed=True)

    entry = LogEntry.objects.get()
    assert (entry.user, entry.object_id, str(entry.change_message)) == (
        superuser.user,
        webhook.pk,
        "Started the verification.",
    )


def test_the_permission_of_each_action_is_known(superuser: Page, webhook: Webhook) -> None:
    offered = dict(superuser.get("webhook").context["action_form"].fields["action"].choices)

    assert offered.keys() - {""} == PERMISSIONS.keys() | WITH_A_PAGE


@pytest.mark.parametrize("action", PERMISSIONS)
def test_an_action_needs_its_own_permission(
    staff: Callable[..., Page], new_webhook: Callable[..., Webhook], action: str
) -> None:
    others = {codename for codename in PERMISSIONS.values() if codename != PERMISSIONS[action]}
    page = staff("amina", "view_webhook", *others)
    webhook = new_webhook(page.user)
    make_ready(webhook, action)

    offered = dict(page.get("webhook").context["action_form"].fields["action"].choices)
    secret = Webhook.objects.get().secret
    page.act(action, webhook, confirmed=True, event_type="file.deleted", post="yes")

    assert action not in offered
    saved = Webhook.objects.get()
    assert (saved.status, saved.secret, saved.deleted_at, saved.paused_at) == (
        webhook.status,
        secret,
        None,
        webhook.paused_at,
    )
    assert not Delivery.objects.exists()


@pytest.mark.parametrize("action", PERMISSIONS)
def test_the_permission_of_an_action_is_sufficient(
    staff: Callable[..., Page], new_webhook: Callable[..., Webhook], action: str
) -> None:
    page = staff("amina", "view_webhook", PERMISSIONS[action])
    webhook = new_webhook(page.user)
    make_ready(webhook, action)

    page.act(action, webhook, confirmed=True, event_type="file.deleted", post="yes")

    assert LogEntry.objects.get().object_id == webhook.pk


@pytest.mark.parametrize("action", PERMISSIONS)
def test_actions_do_not_affect_foreign_webhooks(
    staff: Callable[..., Page], new_webhook: Callable[..., Webhook], webhook: Webhook, action: str
) -> None:
    page = staff("berta", "view_webhook", *set(PERMISSIONS.values()))
    new_webhook(page.user)

    page.act(action, webhook, confirmed=True, event_type="file.deleted", post="yes")

    saved: Any = Webhook.objects.get(pk=webhook.pk)
    assert (saved.status, saved.secret, saved.deleted_at, saved.paused_at) == (
        webhook.status,
        SECRET,
        None,
        webhook.paused_at,
    )
    assert not LogEntry.objects.exists()


def test_a_get_request_runs_no_action(superuser: Page, webhook: Webhook) -> None:
    superuser.get("webhook", action="verify", _selected_action=webhook.pk, index="0")

    assert not Delivery.objects.exists()


def test_an_action_needs_the_csrf_token(superuser: Page, webhook: Webhook) -> None:
    superuser.client.handler.enforce_csrf_checks = True

    assert superuser.act("verify", webhook, confirmed=True).status_code == 403
