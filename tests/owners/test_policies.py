"""Policies for owners: a project's own and the default."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from django.core import mail
from django.core.exceptions import ValidationError

from tests.support.rows import emit_one, make_webhook
from webhooks_app.admin.owner_fields import OwnerChoiceField, OwnerNameField
from webhooks_app.exceptions import InvalidOwnerError
from webhooks_app.maintenance.outgoing import Mail, send
from webhooks_app.models import ApiKey, Event, Webhook
from webhooks_app.owners import UserOwners, owners, parse_key

pytestmark = pytest.mark.django_db


class PayingOwners(UserOwners):
    """Paying users, who share a mailbox and have a full name."""

    def check(self, owner: Any) -> None:
        super().check(owner)
        if not owner.first_name:
            raise InvalidOwnerError("This account has no plan with webhooks.")

    def is_active(self, owner: Any) -> bool:
        return bool(owner.first_name)

    def recipients(self, owner: Any) -> list[str]:
        return ["ops@example.com", "dev@example.com"]

    def label(self, owner: Any) -> str:
        return str(owner.first_name)


@pytest.fixture
def _paying(settings: Any) -> None:
    settings.WEBHOOKS_OWNERS = f"{__name__}.PayingOwners"


@pytest.fixture
def alice(django_user_model: Any) -> Any:
    return django_user_model.objects.create_user("alice", email="alice@example.com")


@pytest.mark.usefixtures("_paying")
def test_an_owner_refused_by_the_policy_cannot_have_events_webhooks_or_keys(alice: Any) -> None:
    with pytest.raises(InvalidOwnerError, match="no plan"):
        emit_one(alice)
    with pytest.raises(ValidationError, match="no plan"):
        make_webhook(alice)

    assert not Event.objects.exists()
    assert not Webhook.objects.exists()


def test_the_keys_of_an_inactive_owner_are_refused(alice: Any, settings: Any) -> None:
    _, text = ApiKey.objects.make(owner=alice)
    assert ApiKey.objects.find(text) is not None

    settings.WEBHOOKS_OWNERS = f"{__name__}.PayingOwners"

    assert ApiKey.objects.find(text) is None


@pytest.mark.usefixtures("_paying")
def test_each_recipient_gets_a_separate_mail(alice: Any) -> None:
    alice.first_name = "Alice"
    webhook = make_webhook(alice)

    send(Mail("disabled", webhook.pk, alice, {"webhook": webhook, "since": webhook.created_at, "given_up": 3}))

    assert [message.to for message in mail.outbox] == [["ops@example.com"], ["dev@example.com"]]


@pytest.mark.usefixtures("_paying")
def test_the_console_shows_the_label(alice: Any, admin_client: Any) -> None:
    type(alice).objects.update(first_name="Alice Wong")
    alice.refresh_from_db()
    webhook = make_webhook(alice)

    for page in ("webhook/", f"webhook/{webhook.pk}/change/"):
        assert "Alice Wong" in admin_client.get(f"/admin/webhooks_app/{page}").content.decode()


def test_a_user_is_found_by_name_or_key(alice: Any) -> None:
    assert [list(owners().found(text)) for text in ("alice", str(alice.pk), "bob")] == [[alice], [alice], []]


NOT_KEYS = {
    "leading space": " {}",
    "trailing space": "{} ",
    "newline": "{}\n",
    "leading zero": "0{}",
    "sign": "+{}",
    "underscore": "0_{}",
    "decimal": "{}.0",
    "a name": "anna",
    "empty": "",
    "too long": "9" * 5000,
}


@pytest.mark.parametrize("pattern", NOT_KEYS.values(), ids=NOT_KEYS)
def test_a_key_is_read_only_as_it_is_written(alice: Any, pattern: str) -> None:
    text = pattern.format(alice.pk)

    with pytest.raises(InvalidOwnerError, match="not a primary key"):
        parse_key(text)
    assert not owners().found(text).exists()


def full_width(number: int) -> str:
    """Return a number in full-width digits, which ``int`` reads like others."""
    return "".join(unicodedata.lookup(f"FULLWIDTH {unicodedata.name(digit)}") for digit in str(number))


def test_digits_of_other_scripts_are_no_key(alice: Any) -> None:
    text = full_width(alice.pk)

    assert int(text) == alice.pk
    with pytest.raises(InvalidOwnerError):
        parse_key(text)
    assert not owners().found(text).exists()


@pytest.mark.parametrize("is_only_member", [False, True], ids=["by name", "as a choice"])
def test_the_console_refuses_other_spellings_of_a_key(alice: Any, is_only_member: bool) -> None:
    field = (
        OwnerChoiceField(type(alice).objects.all())
        if is_only_member
        else OwnerNameField(rows=type(alice).objects.all(), strip=False)
    )

    assert field.clean(str(alice.pk)) == alice
    for text in (f" {alice.pk}", f"0{alice.pk}", full_width(alice.pk)):
        with pytest.raises(ValidationError):
            field.clean(text)


class ColleaguesOwners(UserOwners):
    def visible_to(self, user: Any) -> Any:
        return type(user).objects.all()


def test_a_user_who_sees_other_owners_is_found_alone_by_name(alice: Any, bob: Any) -> None:
    assert list(ColleaguesOwners().found(alice.get_username())) == [alice]
