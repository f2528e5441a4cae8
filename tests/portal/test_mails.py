"""The choice of mails on the customers' pages, and the expiry of keys."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from webhooks_app.models import ApiKey, AuditEntry, MailPreference

from .conftest import Customer

pytestmark = pytest.mark.django_db


def test_a_customer_chooses_a_daily_summary(amina: Customer, boris: Customer) -> None:
    assert "Mails about webhooks that need attention: at once." in amina.get("overview").content.decode()

    page = amina.post("mails", mails="daily").content.decode()

    assert "Saved the choice of mails." in page
    assert "Mails about webhooks that need attention: as a daily summary." in page
    assert MailPreference.objects.of(amina.user) == "daily"
    assert MailPreference.objects.of(boris.user) == "at_once"
    entry = AuditEntry.objects.get(action="mails.changed")
    assert (entry.owner, entry.via, entry.changes) == (amina.user, "portal", {"mails": ["at_once", "daily"]})


def test_the_same_choice_again_changes_nothing(amina: Customer) -> None:
    for _ in range(2):
        amina.post("mails", mails="none")
    amina.post("mails", mails="none")

    assert AuditEntry.objects.filter(action="mails.changed").count() == 1


def test_an_unknown_choice_is_refused(amina: Customer) -> None:
    page = amina.post("mails", mails="hourly").content.decode()

    assert "Select a valid choice." in page
    assert not MailPreference.objects.exists()


def test_the_form_shows_the_choice(amina: Customer) -> None:
    amina.post("mails", mails="none")

    assert 'value="none" checked' in amina.get("mails").content.decode().replace('required id="id_mails_2" ', "")


def test_a_reader_sees_the_choice_without_the_form(amina: Customer, settings: Any) -> None:
    settings.WEBHOOKS_OWNERS = "tests.portal.conftest.ReadOnlyOwners"

    page = amina.get("overview").content.decode()

    assert "Mails about webhooks that need attention: at once." in page
    assert amina.url("mails") not in page
    assert amina.post("mails", mails="none").status_code == 403


@pytest.mark.parametrize(
    ("days", "state"), [(13, "expires soon"), (15, "valid"), (-1, "expired"), (None, "valid")], ids=str
)
def test_the_list_of_keys_says_which_ones_expire_soon(amina: Customer, days: int | None, state: str) -> None:
    ApiKey.objects.update(expires_at=None if days is None else timezone.now() + timedelta(days=days))

    assert f"<td>{state}" in amina.get("keys").content.decode()
