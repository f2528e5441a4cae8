"""The search for accounts while the user types, in the forms for new webhooks and API keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.test.utils import CaptureQueriesContext

from webhooks_app.admin.owner_fields import MAX_SUGGESTED
from webhooks_app.models import Webhook
from webhooks_app.owners import BaseOwners, UserOwners

from .conftest import Page, shown_messages, shows, text

FORM = {"url": "https://new.example.com/", "event_types": ["file.deleted"]}


class StaffOwners(UserOwners):
    """Staff act for all accounts of customers."""

    def visible_to(self, user: Any) -> Any:
        return get_user_model().objects.filter(username__startswith="customer")


class FirstNames(UserOwners):
    """Accounts have names that are not unique, and staff act for some of them."""

    name_field = "first_name"

    def named(self, name: str) -> Any:
        return BaseOwners.named(self, name)

    def visible_to(self, user: Any) -> Any:
        return get_user_model().objects.filter(last_name="own")


@pytest.fixture
def customers(db: None) -> list[Any]:
    users = get_user_model().objects
    return users.bulk_create(get_user_model()(username=f"customer-{number:03}") for number in range(120))


@pytest.fixture
def member(staff: Callable[..., Page], customers: list[Any], settings: Any) -> Page:
    settings.WEBHOOKS_OWNERS = f"{__name__}.StaffOwners"
    return staff("berta", "add_webhook", "view_webhook")


def found(page: Page, term: str, model: str = "webhook") -> list[str]:
    answer = page.get(model, "owners", term=term)
    assert answer.status_code == 200
    return [each["id"] for each in answer.json()["results"]]


@pytest.mark.parametrize("model", ["webhook", "apikey"])
def test_an_account_beyond_the_first_ones_is_found(superuser: Page, customers: list[Any], model: str) -> None:
    assert found(superuser, "ER-11", model) == [f"customer-11{number}" for number in range(10)]
    assert found(superuser, "nobody", model) == []


def test_names_that_begin_with_the_text_are_first(superuser: Page, customers: list[Any]) -> None:
    get_user_model().objects.create_user("zz-customer")
    get_user_model().objects.create_user("ustomer")

    assert found(superuser, "ustomer")[:2] == ["ustomer", "customer-000"]


def test_the_number_of_suggestions_is_limited_and_stated(superuser: Page, customers: list[Any]) -> None:
    many = superuser.get("webhook", "owners", term="customer").json()
    one = superuser.get("webhook", "owners", term="customer-007").json()

    assert (len(many["results"]), many["pagination"]["more"]) == (MAX_SUGGESTED, True)
    assert many["summary"] == f"The first {MAX_SUGGESTED} accounts. Type more of the name."
    assert one["summary"] == "1 account."


def test_staff_find_only_the_owners_for_whom_they_may_create(member: Page, superuser: Page) -> None:
    assert found(member, "root") == []
    assert found(member, "customer-119") == ["customer-119"]
    assert found(superuser, "root") == ["root"]


def test_staff_without_the_right_to_create_find_nothing(staff: Callable[..., Page], customers: list[Any]) -> None:
    for page in (staff("carol", "view_webhook"), staff("dora", "view_webhook", "change_webhook")):
        assert page.get("webhook", "owners", term="customer").status_code == 403


def test_a_form_works_without_javascript(member: Page) -> None:
    form = text(member.get("webhook", "add"))
    assert '<input type="text" name="owner"' in form
    assert form.count('<option value="customer-') == MAX_SUGGESTED

    created = member.post("webhook", "add", owner="customer-119", **FORM)

    assert Webhook.objects.get().owner.username == "customer-119", shown_messages(created)


def test_an_account_of_others_is_refused_like_an_unknown_one(member: Page, superuser: Page) -> None:
    answers = [member.post("webhook", "add", owner=name, **FORM) for name in ("root", str(superuser.user.pk), "nobody")]

    assert all(shows(answer, "There is no account named") for answer in answers)
    assert not Webhook.objects.exists()


def test_few_owners_are_a_choice(staff: Callable[..., Page], customers: list[Any], settings: Any) -> None:
    settings.WEBHOOKS_OWNERS = f"{__name__}.StaffOwners"
    get_user_model().objects.filter(username__gt="customer-004").delete()
    page = staff("berta", "add_webhook", "view_webhook")

    form = text(page.get("webhook", "add"))

    assert '<select name="owner"' in form
    assert form.count(">customer-") == 5


def test_a_single_character_is_searched_at_the_beginning_only(superuser: Page, customers: list[Any]) -> None:
    get_user_model().objects.create_user("x-1")

    assert found(superuser, "x") == ["x-1"]
    assert found(superuser, "u") == []


@pytest.mark.parametrize("term", ["", "customer-0"])
def test_suggestions_need_no_search_inside_names(superuser: Page, customers: list[Any], term: str) -> None:
    with CaptureQueriesContext(connection) as captured:
        assert len(found(superuser, term)) == MAX_SUGGESTED

    (asked,) = [each["sql"] for each in captured if "username" in each["sql"] and "LIMIT 51" in each["sql"]]
    assert "CASE" not in asked
    assert "LIKE '%" not in asked


def test_staff_find_their_account_among_many_of_the_same_name(
    staff: Callable[..., Page], customers: list[Any], settings: Any
) -> None:
    users = get_user_model().objects
    users.update(first_name="Ann")
    users.filter(username__gt="customer-059").update(last_name="own")
    own = users.get(username="customer-119")
    users.filter(last_name="own").exclude(pk=own.pk).update(first_name="Bob")
    settings.WEBHOOKS_OWNERS = f"{__name__}.FirstNames"
    page = staff("berta", "add_webhook", "view_webhook")

    created = page.post("webhook", "add", owner="Ann", **FORM)

    assert Webhook.objects.get().owner == own, shown_messages(created)


def test_a_search_with_nul_is_refused(superuser: Page) -> None:
    assert superuser.get("webhook", "owners", term="\0").status_code == 400
