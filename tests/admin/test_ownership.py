"""Visibility of rows and pages by owner and permission."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import DEFAULT_DB_ALIAS
from django.urls import reverse
from django.utils import timezone

from tests.maintenance.rollups.conftest import make_tally
from tests.support.rows import make_problem, plan_replay
from webhooks_app.emission import emit
from webhooks_app.maintenance.rollups.folding import fold
from webhooks_app.models import ApiKey, Delivery, Event, Webhook, WorkerProcess

from .conftest import DATA, Page, shows, text
from .test_hostile import PAGES, address

MODELS = ("webhook", "event", "delivery", "apikey")
VIEW = tuple(f"view_{model}" for model in MODELS)
ALL = (*VIEW, "add_webhook", "change_webhook", "delete_webhook", "add_apikey", "change_apikey")


NOT_FOR_MEMBERS = {"operations changelist"}
NO_FORMS = {f"{model} {page}" for model in ("event", "delivery", "problem") for page in ("add", "delete")}
"""Pages of Django for rows that only the app writes."""


def rows_of(account: Any, new_webhook: Callable[..., Webhook]) -> dict[str, Any]:
    """Create one row of each model for an account."""
    webhook = new_webhook(account)
    event = emit("file.deleted", DATA, owner=account)
    api_key, _ = ApiKey.objects.make(owner=account or webhook.owner) if account else (None, "")
    return {"webhook": webhook, "event": event, "delivery": event.deliveries.get(webhook=webhook), "apikey": api_key}


def listed(page: Page, model: str) -> set[str]:
    return {row.pk for row in page.get(model).context["cl"].result_list}


@pytest.fixture
def theirs(owner: Any, new_webhook: Callable[..., Webhook]) -> dict[str, Any]:
    return rows_of(owner, new_webhook)


@pytest.mark.parametrize("model", MODELS)
def test_staff_see_only_their_own_rows(
    staff: Callable[..., Page], new_webhook: Callable[..., Webhook], theirs: dict[str, Any], model: str
) -> None:
    page = staff("berta", *ALL)
    own = rows_of(page.user, new_webhook)

    assert listed(page, model) == {own[model].pk}
    assert page.get(model, "change", own[model].pk).context["original"] == own[model]
    assert page.get(model, q=theirs[model].pk).context["cl"].result_count == 0


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("view", ["change", "history", "delete"])
def test_a_row_of_another_account_is_not_found(
    staff: Callable[..., Page], theirs: dict[str, Any], model: str, view: str
) -> None:
    page = staff("berta", *ALL, "delete_apikey")

    answer = page.get(model, view, theirs[model].pk)
    nothing = page.get(model, view, theirs[model].pk[:-4] + "0000")

    assert (answer.status_code, answer.redirect_chain) == (nothing.status_code, nothing.redirect_chain)
    assert not answer.context or "object" not in answer.context or answer.context["object"] is None


@pytest.mark.parametrize("model", MODELS)
def test_the_permission_to_manage_all_shows_every_row(
    staff: Callable[..., Page], new_webhook: Callable[..., Webhook], theirs: dict[str, Any], model: str
) -> None:
    page = staff("berta", *ALL, "manage_all_webhooks")

    assert theirs[model].pk in listed(page, model)


@pytest.mark.parametrize("model", MODELS)
def test_a_superuser_sees_every_row(superuser: Page, theirs: dict[str, Any], model: str) -> None:
    assert theirs[model].pk in listed(superuser, model)


def test_no_page_shows_the_service_or_another_account_to_other_staff(
    staff: Callable[..., Page], new_webhook: Callable[..., Webhook]
) -> None:
    permissions = Permission.objects.filter(content_type__app_label="webhooks_app").exclude(
        codename="manage_all_webhooks"
    )
    page = staff("berta", *permissions.values_list("codename", flat=True))
    wilhelmina = get_user_model().objects.create_user("wilhelmina")
    own = new_webhook(page.user, url="https://berta.example/")
    for hidden in (wilhelmina, None):
        make_problem(new_webhook(hidden, url="https://hidden.example/"), code=500)
        emit("file.deleted", DATA, owner=hidden)
    make_tally(timezone.now(), **{webhook.pk: {"given_up": 777} for webhook in Webhook.objects.all()})
    fold(DEFAULT_DB_ALIAS)
    now = timezone.now()
    WorkerProcess.objects.create(id="x", host="worker-of-the-service", pid=1987654321, started_at=now, seen_at=now)
    emit("file.deleted", DATA, owner=page.user)
    delivery = own.deliveries.get()
    rows = {
        "webhook": own,
        "delivery": delivery,
        "event": delivery.event,
        "replay": plan_replay(own),
        "problem": make_problem(own, code=503),
        "apikey": ApiKey.objects.make(owner=page.user)[0],
    }

    found = {"index": page.client.get(reverse("admin:app_list", args=["webhooks_app"]))}
    for model, name, of_row in PAGES:
        if name == "export":
            found[f"{model} {name}"] = page.post(model, name, format="csv")
        elif name not in ("act", "shown", "link", "check_url"):
            found[f"{model} {name}"] = page.get(model, name, *address(rows, model, name, of_row))
    for section in ("deliveries", "settings", "verification"):
        found[section] = page.get("webhook", "change", own.pk, section=section)

    shown = {name: b"".join(answer).decode() for name, answer in found.items() if answer.status_code == 200}
    assert {name for name in found if name not in shown} <= {"replay delete", *NOT_FOR_MEMBERS, *NO_FORMS}
    hidden_words = (
        "wilhelmina",
        "hidden.example",
        "worker-of-the-service",
        "1987654321",
        "No worker seen",
        "<dt>Workers",
    )
    assert {(name, word) for name, text in shown.items() for word in hidden_words if word in text} == set()
    assert "777" in shown["index"]
    assert "1,554" not in shown["index"]
    assert "2,331" not in shown["index"]


def test_platform_webhooks_need_the_permission_to_manage_all(
    staff: Callable[..., Page], superuser: Page, new_webhook: Callable[..., Webhook]
) -> None:
    webhook = new_webhook(None)

    assert listed(staff("berta", *ALL), "webhook") == set()
    assert listed(superuser, "webhook") == {webhook.pk}


@pytest.mark.parametrize("model", MODELS)
def test_pages_need_the_view_permission(staff: Callable[..., Page], model: str) -> None:
    assert staff("berta").get(model).status_code == 403


def test_the_owner_of_a_new_webhook_is_set_for_staff(staff: Callable[..., Page], owner: Any) -> None:
    page = staff("berta", *ALL)
    form = {"url": "https://receiver.example.com/", "event_types": ["file.deleted"], "owner": owner.pk}

    assert 'name="owner"' not in text(page.get("webhook", "add"))
    page.post("webhook", "add", **form)

    assert Webhook.objects.get().owner == page.user


def test_the_owner_of_a_webhook_cannot_be_changed_by_staff(
    staff: Callable[..., Page], new_webhook: Callable[..., Webhook], owner: Any
) -> None:
    page = staff("berta", *ALL)
    webhook = new_webhook(page.user)
    form = {"url": webhook.url, "event_types": webhook.event_types, "owner": owner.pk, "description": "changed"}

    page.post("webhook", "change", webhook.pk, **form)

    webhook.refresh_from_db()
    assert (webhook.owner, webhook.description) == (page.user, "changed")


@pytest.mark.parametrize(("permissions", "saved"), [((), 500), (("manage_all_webhooks",), 1000)])
def test_only_users_who_manage_all_can_raise_the_concurrency(
    staff: Callable[..., Page], new_webhook: Callable[..., Webhook], permissions: tuple[str, ...], saved: int
) -> None:
    page = staff("berta", *ALL, *permissions)
    webhook = new_webhook(page.user, max_in_flight=500)
    form = {"url": webhook.url, "event_types": webhook.event_types, "owner": page.user.pk}

    answer = page.post("webhook", "change", webhook.pk, **form, max_in_flight=1000)

    webhook.refresh_from_db()
    assert webhook.max_in_flight == saved
    assert shows(answer, "at most 50 concurrent requests") == (saved == 500)


def test_a_raised_concurrency_survives_other_changes_by_the_owner(
    staff: Callable[..., Page], new_webhook: Callable[..., Webhook]
) -> None:
    page = staff("berta", *ALL)
    webhook = new_webhook(page.user, max_in_flight=500)
    form = {"url": webhook.url, "event_types": webhook.event_types, "description": "busy"}

    page.post("webhook", "change", webhook.pk, **form, max_in_flight=500)

    webhook.refresh_from_db()
    assert (webhook.max_in_flight, webhook.description) == (500, "busy")


def test_the_limit_of_webhooks_holds_for_staff(
    staff: Callable[..., Page], new_webhook: Callable[..., Webhook], settings: Any
) -> None:
    settings.WEBHOOKS_MAX_WEBHOOKS_PER_OWNER = 1
    page = staff("berta", *ALL)
    new_webhook(page.user)

    answer = page.post("webhook", "add", url="https://receiver.example.com/", event_types=["file.deleted"])

    assert shows(answer, "The limit of 1 for this account")


def test_the_view_permission_offers_no_changes(staff: Callable[..., Page], new_webhook: Callable[..., Webhook]) -> None:
    page = staff("berta", *VIEW)
    webhook = new_webhook(page.user)

    answer = page.settings_of(webhook)
    page.post("webhook", "change", webhook.pk, url="https://other.example.com/", event_types=["file.deleted"])

    assert 'name="_save"' not in text(answer)
    assert Webhook.objects.get().url == webhook.url
    actions = [name for name, _ in page.get("webhook").context["action_form"].fields["action"].choices if name]
    assert actions == ["try_filter"]


def test_staff_do_not_see_the_column_of_owners(
    staff: Callable[..., Page], superuser: Page, new_webhook: Callable[..., Webhook]
) -> None:
    page = staff("berta", *ALL)
    new_webhook(page.user)

    assert "column-owner" not in text(page.get("webhook"))
    assert "column-owner" in text(superuser.get("webhook"))


@pytest.mark.parametrize("model", ["event", "delivery"])
@pytest.mark.parametrize("view", ["add", "delete"])
def test_rows_of_the_app_cannot_be_added_or_deleted(
    superuser: Page, theirs: dict[str, Any], model: str, view: str
) -> None:
    args = (theirs[model].pk,) if view == "delete" else ()

    assert superuser.post(model, view, *args, post="yes").status_code == 403
    assert Event.objects.count() == Delivery.objects.count() == 1


def test_deleting_an_account_deletes_its_rows(superuser: Page, theirs: dict[str, Any], owner: Any) -> None:
    answer = superuser.client.post(f"/admin/auth/user/{owner.pk}/delete/", {"post": "yes"}, follow=True)

    assert answer.status_code == 200
    assert not Webhook.objects.exists()
    assert not Event.objects.exists()
