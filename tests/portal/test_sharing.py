"""Sharing of a page: with its address, and with a link for somebody without a login."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from webhooks_app.models import AuditEntry, PortalLink
from webhooks_app.portal import portal_url

from .conftest import Customer

pytestmark = pytest.mark.django_db

HOST = "http://testserver"


def link_on(page: str) -> str:
    """Return the path of the link that a page shows."""
    (found,) = re.findall(rf"{HOST}(/webhooks/link/lnk_[^<\s]+)", page)
    return str(found)


def shared(customer: Customer, page: str) -> Any:
    return customer.client.post(f"{customer.url('share')}?page={page}", follow=True)


@pytest.mark.parametrize("name", ["webhook", "delivery", "event"])
def test_a_page_leads_to_its_address_for_colleagues(amina: Customer, name: str) -> None:
    address = amina.url(name, getattr(amina, name).pk)
    (share,) = set(re.findall(r'href="([^"]+/share/[^"]+)"', amina.client.get(address).text))

    assert f">{HOST}{address}<" in amina.client.get(share).text


def test_the_address_of_a_page_with_a_filter_keeps_it(amina: Customer) -> None:
    address = f"{amina.url('deliveries')}?state=given_up"
    (share,) = re.findall(r'href="([^"]+/share/[^"]+)"', amina.client.get(address).text)

    assert f">{HOST}{address}<" in amina.client.get(share).text


def test_a_colleague_without_a_login_sees_the_shared_page_and_changes_nothing(amina: Customer) -> None:
    page = f"webhooks/{amina.webhook.pk}/"
    colleague, link = Client(), link_on(shared(amina, page).text)

    first = colleague.post(link, follow=colleague.get(link).status_code == 200)
    refused = colleague.post(amina.url("webhook-action", amina.webhook.pk, "pause"))

    assert (first.request["PATH_INFO"], first.status_code) == (amina.url("webhook", amina.webhook.pk), 200)
    assert (refused.status_code, "Pause" in first.text) == (403, False)
    assert AuditEntry.objects.filter(action="portal_link.created", actor_name="amina").exists()


def test_a_link_is_shown_once(amina: Customer) -> None:
    answer = shared(amina, "")

    again = amina.client.get(answer.request["PATH_INFO"])

    assert link_on(answer.text)
    assert ("lnk_" in again.text, "not shown again" in again.text) == (False, True)


def test_a_link_ends_with_the_access_of_its_creator(amina: Customer) -> None:
    link = link_on(shared(amina, "").text)

    get_user_model().objects.update(is_active=False)

    assert Client().get(link).status_code == 404


def test_readers_share_only_the_address(amina: Customer, settings: Any) -> None:
    settings.WEBHOOKS_OWNERS = "tests.portal.conftest.ReadOnlyOwners"

    page, refused = amina.get("share", page="deliveries/"), shared(amina, "deliveries/")

    assert f">{HOST}{amina.url('deliveries')}<" in page.text
    assert ("Create a link" in page.text, refused.status_code) == (False, 403)
    assert not PortalLink.objects.exists()


def test_a_visitor_by_link_creates_no_further_link(amina: Customer) -> None:
    visitor, link = Client(), portal_url(amina.user, rights=("read", "manage", "secrets"))
    visitor.get(link)
    visitor.post(link)

    refused = visitor.post(f"{amina.url('share')}?page=", follow=True)

    assert (refused.status_code, PortalLink.objects.count()) == (403, 1)


@pytest.mark.parametrize("page", ["nothing/", "../2/", "//example.com/", "webhooks/\n"])
def test_only_pages_of_the_account_are_shared(amina: Customer, page: str) -> None:
    assert amina.get("share", page=page).status_code == 404


def test_a_login_after_an_ended_visit_leads_to_the_page(amina: Customer) -> None:
    visitor, link = Client(), portal_url(amina.user)
    visitor.get(link)
    visitor.post(link)
    PortalLink.objects.all().delete()

    ended = visitor.get(amina.url("delivery", amina.delivery.pk))

    assert f'href="/accounts/login/?next={amina.url("delivery", amina.delivery.pk)}"' in ended.text
