"""The search of the console."""

from __future__ import annotations

import time
from typing import Any

import pytest

from webhooks_app import emit
from webhooks_app.models import ApiKey, AuditEntry, Replay

from ..support.rows import EVENT_TYPE, make_webhook
from .conftest import Page, text

pytestmark = pytest.mark.django_db


def search(page: Page, words: str) -> Any:
    return page.get("webhook", "search", q=words)


def leads_to(page: Page, words: str) -> str:
    """Return the path to which a search with a single result redirects; "" if it shows a list."""
    chain = search(page, words).redirect_chain
    return str(chain[-1][0]) if chain else ""


@pytest.fixture
def rows(delivery, owner):
    key, _ = ApiKey.objects.make(owner=owner, name="CI")
    replay = Replay.objects.create(webhook=delivery.webhook, since=delivery.created_at, until=delivery.created_at)
    entry = AuditEntry.objects.order_by("-pk").first()
    found = (delivery, delivery.event, delivery.webhook, key, replay, entry)
    return {row._meta.model_name: row for row in found}


@pytest.mark.parametrize("model", ["webhook", "event", "delivery", "replay", "apikey", "auditentry"])
@pytest.mark.parametrize("length", [34, None], ids=["beginning", "whole"])
def test_an_id_or_its_beginning_leads_to_its_page(superuser, rows, model, length):
    row = rows[model]

    assert leads_to(superuser, f" {row.pk[:length]} ") == f"/admin/webhooks_app/{model}/{row.pk}/change/"


def test_the_id_of_an_attempt_leads_to_its_delivery(superuser, delivery):
    attempt_id = f"att_{delivery.pk.removeprefix('dlv_')}02"

    assert delivery.pk in leads_to(superuser, attempt_id)


def test_the_beginning_of_an_api_key_leads_to_it_but_a_wrong_one_does_not(superuser, rows):
    key = rows["apikey"]

    assert key.pk in leads_to(superuser, f"whk_{key.prefix}_the-rest-is-not-compared")
    assert key.pk not in leads_to(superuser, "whk_ffffffffffff")


def test_a_reference_leads_to_its_event(superuser, owner):
    make_webhook(owner)
    event = emit(EVENT_TYPE, {"error": "a"}, owner=owner, references=["order_4711"])

    assert event.pk in leads_to(superuser, "order_4711")


def test_a_part_of_a_url_leads_to_its_webhook(superuser, new_webhook, owner):
    webhook = new_webhook(owner, url="https://billing.example.com/hooks")
    new_webhook(owner)

    assert webhook.pk in leads_to(superuser, "BILLING.example")


def test_an_account_leads_to_its_webhooks(superuser, webhook, owner):
    assert leads_to(superuser, "amina") == f"/admin/webhooks_app/webhook/?owner={owner.pk}"


def test_several_results_are_listed_by_kind_and_the_newest_of_many(superuser, new_webhook, owner):
    webhooks = [new_webhook(owner, url="https://amina.example.com/0")]
    time.sleep(0.001)  # the identifiers of a millisecond have no order
    webhooks += [new_webhook(owner, url=f"https://amina.example.com/{number}") for number in range(1, 21)]

    page = search(superuser, "amina")

    assert [(each.kind, len(each.hits), each.has_more) for each in page.context["found"]] == [
        ("Webhooks", 20, True),
        ("Accounts", 1, False),
    ]
    assert "https://amina.example.com/20" in text(page)
    assert f"{webhooks[0].url}<" not in text(page)
    assert "These are the newest." in text(page)


@pytest.mark.parametrize("words", ["ab", "evt_ffff", "nothing-like-this", "%", "' OR 1=1 --", "<b>", "ﬀﬀﬀ", "x" * 3000])
def test_a_search_without_results_explains_what_can_be_found(superuser, webhook, words):
    page = search(superuser, words)

    assert "Nothing was found." in text(page)
    assert "the name or primary key of an account" in text(page)
    assert "<b>" not in text(page)


def test_an_empty_search_explains_what_can_be_found(superuser, webhook):
    page = search(superuser, "  ")

    assert "Nothing was found." not in text(page)
    assert "the name or primary key of an account" in text(page)


def test_staff_find_only_rows_of_their_own_owner(staff, rows, owner):
    member = staff("bob", "view_webhook", "view_event", "view_delivery", "view_apikey")

    for words in ("receiver.example.com", "amina", *(row.pk for row in rows.values())):
        assert "Nothing was found." in text(search(member, words)), words


def test_staff_find_only_what_they_may_view(staff, webhook, new_webhook):
    member = staff("bob", "view_webhook")
    own = new_webhook(member.user)
    event = emit("file.deleted", {"file_id": "file_1", "user_id": "user_1", "filename": "a.pdf"}, owner=member.user)

    assert own.pk in leads_to(member, "receiver.example.com")
    assert "Nothing was found." in text(search(member, event.pk))
    assert search(staff("carol"), "anything").status_code == 403


@pytest.mark.parametrize(
    ("model", "page"),
    [
        *((model, "change") for model in ("webhook", "event", "delivery", "apikey")),
        *((entry, "changelist") for entry in ("receivers", "eventtypes", "operations")),
        *(("webhook", page) for page in ("search", "history", "delete", "add")),
    ],
)
def test_each_page_has_the_search(superuser, rows, model, page):
    args = [rows[model].pk] if page in ("change", "history", "delete") else []

    shown = text(superuser.get(model, page, *args))

    assert shown.count('id="webhooks-search"') == 1
    assert 'action="/admin/webhooks_app/webhook/search/"' in shown


@pytest.mark.parametrize("model", ["webhook", "event", "delivery", "apikey"])
def test_the_only_search_of_a_list_also_searches_everything(superuser, rows, model):
    shown = text(superuser.get(model, "changelist"))

    assert shown.count('name="q"') == 1
    assert 'form="changelist-search" formaction="/admin/webhooks_app/webhook/search/">Search everything<' in shown
