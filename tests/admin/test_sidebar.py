"""The entries of the pages that are about no model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from django.apps import apps
from django.contrib import admin
from django.urls import reverse

from webhooks_app.admin.sidebar import Entry
from webhooks_app.admin.webhooks import PAGES
from webhooks_app.models import Webhook

from .conftest import Page, text

ENTRIES = ("receivers", "eventtypes", "operations")


def entries(page: Page) -> list[str]:
    """Return the entries that the app's list of models has for the user."""
    index = text(page.client.get(reverse("admin:index")))
    links = {name: reverse(f"admin:webhooks_app_{name}_changelist") for name in ENTRIES}
    return [name for name, link in links.items() if f'<a href="{link}"' in index]


@pytest.mark.parametrize(
    ("codenames", "listed"),
    [
        pytest.param(["view_webhook", "view_delivery"], ["receivers", "eventtypes"], id="webhooks and deliveries"),
        pytest.param(["view_webhook"], ["eventtypes"], id="webhooks"),
        pytest.param(["change_webhook"], ["eventtypes"], id="change webhooks"),
        pytest.param(["view_delivery"], [], id="deliveries"),
        pytest.param(["manage_all_webhooks"], ["operations"], id="the service"),
    ],
)
def test_a_page_is_listed_for_users_who_may_open_it(
    staff: Callable[..., Page], codenames: Sequence[str], listed: Sequence[str]
) -> None:
    page = staff("boris", *codenames)

    assert entries(page) == listed
    assert [name for name in ENTRIES if page.get(name).status_code == 200] == listed


def test_superusers_have_every_page(superuser: Page) -> None:
    assert entries(superuser) == list(ENTRIES)


def test_a_page_can_only_be_read(superuser: Page) -> None:
    assert superuser.post("receivers", "changelist").status_code == 405


def test_an_entry_is_no_model_of_the_app(superuser: Page) -> None:
    known = set(apps.get_models(include_auto_created=True))

    assert not any(issubclass(model, Entry) for model in known)
    assert set(PAGES) & known == set()


def test_every_site_with_webhooks_has_the_pages() -> None:
    site = admin.AdminSite(name="second")
    site.register(Webhook, type(admin.site.get_model_admin(Webhook)))

    assert all(site.is_registered(entry) for entry in PAGES)
