"""Sharing of a page with its address."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from webhooks_app.models import PortalLink
from webhooks_app.portal import portal_url

from .conftest import Customer

pytestmark = pytest.mark.django_db

HOST = "http://testserver"


@pytest.mark.parametrize("name", ["webhook", "delivery", "event"])
def test_a_page_leads_to_its_address_for_colleagues(amina: Customer, name: str) -> None:
    address = amina.url(name, getattr(amina, name).pk)
    (share,) = set(re.findall(r'href="([^"]+/share/[^"]+)"', amina.client.get(address).text))

    assert f">{HOST}{address}<" in amina.client.get(share).text


def test_the_address_of_a_page_with_a_filter_keeps_it(amina: Customer) -> None:
    address = f"{amina.url('deliveries')}?state=given_up"
    (share,) = re.findall(r'href="([^"]+/share/[^"]+)"', amina.client.get(address).text)

    assert f">{HOST}{address}<" in amina.client.get(share).text


def test_a_colleague_opens_the_address_with_rights_of_their_own(amina: Customer, boris: Customer) -> None:
    address = amina.url("delivery", amina.delivery.pk)

    assert boris.client.get(address).status_code == 404
    assert Client().get(address)["Location"] == f"/accounts/login/?next={address}"


@pytest.mark.parametrize("page", ["nothing/", "../2/", "%2e%2e/2/", "//example.com/", "webhooks/\n", "webhooks/%0A"])
def test_only_pages_of_the_account_are_shared(amina: Customer, page: str) -> None:
    assert amina.get("share", page=page).status_code == 404


def test_a_login_after_an_ended_visit_leads_to_the_page(amina: Customer) -> None:
    visitor, link = Client(), portal_url(amina.user)
    visitor.get(link)
    visitor.post(link)
    PortalLink.objects.all().delete()

    ended = visitor.get(amina.url("delivery", amina.delivery.pk))

    assert f'href="/accounts/login/?next={amina.url("delivery", amina.delivery.pk)}"' in ended.text


def test_an_ended_visit_needs_no_login_page(amina: Customer, settings: Any) -> None:
    settings.LOGIN_URL = "a_login_that_the_project_lacks"
    visitor, link = Client(), portal_url(amina.user)
    visitor.get(link)
    visitor.post(link)
    PortalLink.objects.all().delete()

    ended = visitor.get(amina.url("overview"))

    assert (ended.status_code, "Log in" in ended.text) == (403, False)
