"""API keys: created, shown once, revoked."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from webhooks_app.models import ApiKey
from webhooks_app.models.api_key import owner_scopes

from .conftest import Page, shown_messages, shows, text

FORM = {"audience": "one", "name": "ci", "scopes": ["webhooks:read"]}


def key_in(page: str) -> str:
    found = re.search(r"whk_[0-9a-f]{12}_[\w-]{43}", page)
    assert found
    return found[0]


def test_a_new_key_is_shown_once_and_valid(superuser: Page, owner: Any) -> None:
    answer = superuser.post("apikey", "add", **FORM, owner=owner.pk)

    api_key = ApiKey.objects.find(key_in(text(answer)))
    assert api_key is not None
    assert (api_key.owner, api_key.name, api_key.scopes) == (owner, "ci", ["webhooks:read"])
    assert not re.search(r"whk_[0-9a-f]{12}_[\w-]{43}", text(superuser.get("apikey")))


def test_staff_create_keys_of_their_own_account(staff: Callable[..., Page], owner: Any) -> None:
    page = staff("berta", "view_apikey", "add_apikey", "view_webhook", "view_delivery")

    page.post("apikey", "add", **FORM, owner=owner.pk)

    assert ApiKey.objects.get().owner == page.user


def test_no_scope_of_a_new_key_is_selected_by_default(superuser: Page) -> None:
    form = superuser.get("apikey", "add").context["adminform"].form

    assert [choice for choice, _ in form.fields["scopes"].choices] == owner_scopes()
    assert not form["scopes"].initial


def test_a_new_key_suggests_its_expiry(superuser: Page) -> None:
    initial = superuser.get("apikey", "add").context["adminform"].form["expires_at"].value()

    assert initial.date() == (timezone.now() + timedelta(days=90)).date()


@pytest.mark.parametrize(
    ("expiry", "messages"),
    [
        pytest.param("", ["The key never expires. Revoke it when it is no longer needed."], id="cleared"),
        pytest.param("2090-01-01T00:00:00", [], id="given"),
    ],
)
def test_a_key_that_never_expires_has_a_warning(superuser: Page, owner: Any, expiry: str, messages: list[str]) -> None:
    answer = superuser.post("apikey", "add", **FORM, owner=owner.pk, expires_at=expiry)

    assert shown_messages(answer) == messages
    assert (ApiKey.objects.get().expires_at is None) == (expiry == "")


def test_a_key_without_a_scope_is_refused_with_the_reason(superuser: Page, owner: Any) -> None:
    answer = superuser.post("apikey", "add", **FORM | {"scopes": []}, owner=owner.pk)

    assert answer.context["adminform"].form.errors["scopes"] == ["Tick at least one scope."]


def test_staff_cannot_give_a_key_a_right_that_they_lack(staff: Callable[..., Page]) -> None:
    page = staff("berta", "view_apikey", "add_apikey", "view_event")

    offered = page.get("apikey", "add").context["adminform"].form.fields["scopes"].choices
    page.post("apikey", "add", name="ci", scopes=["events:read", "webhooks:write"])

    assert [name for name, _ in offered] == ["events:read"]
    assert not ApiKey.objects.exists()


def test_staff_cannot_add_a_scope_that_they_lack_but_keep_one(staff: Callable[..., Page]) -> None:
    page = staff("berta", "view_apikey", "change_apikey")
    api_key, _ = ApiKey.objects.make(owner=page.user, scopes=["webhooks:write"])

    page.post("apikey", "change", api_key.pk, name="ci", scopes=["webhooks:write", "webhooks:test"])
    page.post("apikey", "change", api_key.pk, name="deploy", scopes=["webhooks:write"])

    api_key.refresh_from_db()
    assert (api_key.name, api_key.scopes) == ("deploy", ["webhooks:write"])


def test_scopes_of_accounts_are_refused_for_a_service_key(superuser: Page) -> None:
    answer = superuser.post("apikey", "add", audience="every", scopes=["webhooks:read"])

    assert answer.context["adminform"].form.errors["scopes"] == [
        "A service key has no scope of accounts. Untick them, or choose “one account”."
    ]
    assert not ApiKey.objects.exists()


@pytest.mark.parametrize("form", [{"scopes": []}, {"scopes": ["webhooks:fly"]}, {"name": "x" * 101}], ids=str)
def test_an_invalid_key_is_not_created(superuser: Page, owner: Any, form: dict[str, Any]) -> None:
    superuser.post("apikey", "add", **FORM | form, owner=owner.pk)

    assert not ApiKey.objects.exists()


def test_no_page_shows_the_digest(superuser: Page, owner: Any) -> None:
    api_key, _ = ApiKey.objects.make(owner=owner)

    for page in (superuser.get("apikey"), superuser.get("apikey", "change", api_key.pk)):
        assert api_key.digest not in text(page)
        assert api_key.prefix in text(page)


def test_scopes_can_be_changed_but_not_the_owner(superuser: Page, owner: Any) -> None:
    api_key, key = ApiKey.objects.make(owner=owner)

    superuser.post("apikey", "change", api_key.pk, **FORM, owner=superuser.user.pk)

    changed = ApiKey.objects.find(key)
    assert changed is not None
    assert (changed.scopes, changed.owner) == (["webhooks:read"], owner)


def test_a_revoked_key_is_refused_for_good_after_confirmation(superuser: Page, owner: Any) -> None:
    api_key, key = ApiKey.objects.make(owner=owner)

    assert shows(superuser.act("revoke", api_key), "cannot be undone")
    assert ApiKey.objects.find(key) is not None

    assert shown_messages(superuser.act("revoke", api_key, confirmed=True)) == ["Revoked the key."]
    assert ApiKey.objects.find(key) is None


def test_revoking_twice_keeps_the_first_time(superuser: Page, owner: Any) -> None:
    api_key, _ = ApiKey.objects.make(owner=owner)
    api_key.revoke()

    superuser.act("revoke", api_key, confirmed=True)

    assert ApiKey.objects.get().revoked_at == api_key.revoked_at


@pytest.mark.parametrize("term", ["{id}", "whk_{prefix}", "amina"])
def test_a_key_is_found_by_search(superuser: Page, owner: Any, term: str) -> None:
    api_key, _ = ApiKey.objects.make(owner=owner)
    ApiKey.objects.make(owner=superuser.user)

    found = superuser.get("apikey", q=term.format(id=api_key.pk, prefix=api_key.prefix)).context["cl"].result_list

    assert [row.pk for row in found] == [api_key.pk]


def test_a_service_key_is_made_without_an_owner(superuser: Page) -> None:
    superuser.post("apikey", "add", audience="every", name="billing")

    api_key = ApiKey.objects.get()
    assert (api_key.is_service_key, api_key.scopes) == (True, ["events:emit"])


@pytest.mark.parametrize(
    ("form", "problem"),
    [
        pytest.param({}, "Enter an account or choose “a service”.", id="no owner"),
        pytest.param({"scopes": ["events:emit"]}, "events:emit is not one of", id="no owner, the scope of a service"),
        pytest.param({"audience": ""}, "This field is required.", id="no choice"),
        pytest.param(
            {"audience": "every", "owner": "root"}, "Leave this empty for a service key", id="a service's owner"
        ),
    ],
)
def test_no_service_key_is_made_by_accident(superuser: Page, form: dict[str, Any], problem: str) -> None:
    answer = superuser.post("apikey", "add", **FORM | form)

    assert shows(answer, problem)
    assert not ApiKey.objects.exists()


def test_staff_of_one_account_are_not_offered_service_keys(staff: Callable[..., Page]) -> None:
    page = staff("berta", "add_apikey", "view_apikey")

    assert "events:emit" not in text(page.get("apikey", "add"))
    page.post("apikey", "add", name="ci", scopes=["events:emit"])
    assert not ApiKey.objects.exists()


def test_a_key_of_an_inactive_account_is_not_created(superuser: Page, owner: Any) -> None:
    owner.is_active = False
    owner.save()

    answer = superuser.post("apikey", "add", **FORM, owner=owner.pk)

    assert shows(answer, "amina is not active, so its keys are refused.")
    assert not ApiKey.objects.exists()


def test_a_key_that_has_expired_is_not_created(superuser: Page, owner: Any) -> None:
    answer = superuser.post("apikey", "add", **FORM, owner=owner.pk, expires_at="2020-01-01T00:00:00")

    assert answer.context["adminform"].form.errors["expires_at"] == ["Enter a time in the future."]
    assert not ApiKey.objects.exists()
