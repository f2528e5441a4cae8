"""The area of customers, from the sign-up to an understood failure, without staff."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

import example_project
from example_project.presentations.models import Presentation
from example_project.presentations.tasks import make_presentation
from webhooks_app.models import Delivery, Webhook

ACCOUNT = {"username": "amina", "email": "", "password1": "a quiet river", "password2": "a quiet river"}


@pytest.fixture
def customer(client: Client) -> Client:
    client.post("/accounts/sign-up/", ACCOUNT)
    return client


def page_of(customer: Client, path: str) -> str:
    user = get_user_model().objects.get(username="amina")
    return f"/webhooks/{user.pk}/{path}"


def test_a_sign_up_leads_to_the_account(client):
    answer = client.post("/accounts/sign-up/", ACCOUNT, follow=True)

    assert "No webhooks yet" in answer.content.decode()
    assert "Your presentations" in answer.content.decode()
    assert "example_project/site.css" in answer.content.decode()
    assert not get_user_model().objects.get(username="amina").is_staff


def test_sign_ups_from_one_address_are_limited(client):
    answers = [
        client.post("/accounts/sign-up/", {}, headers={"X-Forwarded-For": f"192.0.2.{number}"}).status_code
        for number in range(31)
    ]

    assert answers == [200] * 30 + [429]


def test_presentations_of_one_account_are_limited(customer):
    answers = [customer.post("/presentations", {}).status_code for _ in range(31)]

    assert answers == [200] * 30 + [429]


def test_a_customer_gets_from_a_key_to_an_understood_failure(customer):
    form = {"name": "Import", "scopes": ["webhooks:read"], "expires_at": ""}
    shown = customer.post(page_of(customer, "api-keys/new/"), form, follow=True)
    key = shown.context["secret"]
    form = {"url": "http://127.0.0.1:9000/hook", "event_types": ["ppt.generation.failed"], "description": "Farm"}
    customer.post(page_of(customer, "webhooks/new/"), form)
    Webhook.objects.update(status="active")

    made = customer.post("/presentations", {"title": "Hello", "outline": "no heading"}, follow=True)
    make_presentation(Presentation.objects.get().pk)
    delivery = Delivery.objects.get(kind="event")
    event = customer.get(page_of(customer, f"events/{delivery.event_id}/")).content.decode()

    assert "Hello" in made.content.decode()
    assert Client().get("/v1/webhooks", headers={"Authorization": f"Bearer {key}"}).json()["results"]
    assert "The outline has no headings" in event
    assert page_of(customer, f"deliveries/{delivery.pk}/") in event


def test_the_area_of_customers_is_in_german_too(customer):
    customer.cookies["django_language"] = "de"

    pages = [customer.get(path).content.decode() for path in ("/presentations", page_of(customer, ""))]

    assert all("Ihre Präsentationen" in page and '<html lang="de">' in page for page in pages)
    assert "Eine Gliederung ohne Überschrift schlägt fehl" in pages[0]


def test_every_text_of_the_example_is_translated():
    catalogue = Path(example_project.__file__).with_name("locale") / "de" / "LC_MESSAGES" / "django.po"

    assert not re.search(r'msgstr ""\n\n|fuzzy', catalogue.read_text())


def test_the_pages_of_customers_need_a_login(client):
    for path in ("/presentations", "/webhooks/"):
        assert client.get(path).headers["Location"] == f"/accounts/login/?next={path}"
