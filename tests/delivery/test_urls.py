"""The table of URLs for every kind of input and at every attempt."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

import pytest
from django.urls import reverse

from webhooks_app import send_test_event
from webhooks_app.conf import transport_options
from webhooks_app.delivery.engine import Engine
from webhooks_app.models import ApiKey, DeliveryAttempt, Webhook
from webhooks_app.transport import make_transport

from ..support.rows import EVENT_TYPE, emit_one, make_webhook
from ..transport.receiver import receiving

pytestmark = pytest.mark.django_db

CASES = json.loads(Path(__file__).parents[1].joinpath("transport", "urls.json").read_text())
PUBLIC = "https://receiver.example.com/hook"
BLOCKED = [case for case in CASES if case["expect"] == "blocked_at_send" and "redirect_to" not in case]
REFUSED = [case for case in CASES if case["expect"] == "reject_at_create"]
REDIRECTING = [case for case in CASES if "redirect_to" in case]
CATEGORIES = sorted({case["category"] for case in CASES})
KINDS = {"event", "retry_notice", "test", "verification"}


@pytest.fixture(autouse=True)
def _strict(settings):
    settings.WEBHOOKS_ALLOW_HTTP = False
    settings.WEBHOOKS_ALLOWED_NETWORKS = []
    settings.WEBHOOKS_MAX_WEBHOOKS_PER_OWNER = 10_000
    for name in ("API", "TEST", "VERIFICATION", "PROBE"):
        setattr(settings, f"WEBHOOKS_{name}_RATE", "")


@pytest.fixture(params=["native", "requests"])
def transport_name(request):
    return request.param


def is_accepted(case):
    return case["expect"] != "reject_at_create"


def saved_urls():
    return set(Webhook.objects.values_list("url", flat=True))


def call(client, key, method, path, body):
    headers = {"authorization": f"Bearer {key}"}
    return client.generic(method, path, json.dumps(body), "application/json", headers=headers)


@pytest.mark.only_on("sqlite")
@pytest.mark.parametrize("category", CATEGORIES)
def test_the_api_accepts_the_urls_of_the_table(client, alice, category):
    _, key = ApiKey.objects.make(owner=alice)
    webhook = make_webhook(alice, url=PUBLIC)

    def answers_to(url):
        created = call(client, key, "POST", "/v1/webhooks", {"url": url, "events": [EVENT_TYPE]})
        changed = call(client, key, "PATCH", f"/v1/webhooks/{webhook.id}", {"url": url})
        return [(answer.status_code, "url" in answer.json().get("errors", {})) for answer in (created, changed)]

    expected = {True: [(201, False), (200, False)], False: [(400, True), (400, True)]}
    cases = [case for case in CASES if case["category"] == category]
    assert [case["id"] for case in cases if answers_to(case["url"]) != expected[is_accepted(case)]] == []
    assert saved_urls() - {PUBLIC} == {case["url"] for case in cases if is_accepted(case)}


SHARES = 4


@pytest.mark.only_on("sqlite")
@pytest.mark.parametrize("category", CATEGORIES)
@pytest.mark.parametrize("share", [0, *(pytest.param(share, marks=pytest.mark.long) for share in range(1, SHARES))])
def test_the_console_accepts_the_urls_of_the_table(admin_client, alice, settings, category, share):
    settings.WEBHOOKS_PROBE_RATE = settings.WEBHOOKS_VERIFICATION_RATE = ""
    webhook = make_webhook(alice, url=PUBLIC)

    def post(page, url):
        form = {"audience": "one", "owner": alice.pk, "url": url, "event_types": EVENT_TYPE, "retry_notices": "on"}
        return admin_client.post(page, urlencode(form, errors="surrogatepass"), "application/x-www-form-urlencoded")

    def is_taken_by_the_pages(url):
        before = Webhook.objects.count()
        post(reverse("admin:webhooks_app_webhook_add"), url)
        changed = post(reverse("admin:webhooks_app_webhook_change", args=[webhook.pk]), url)
        return Webhook.objects.count() == before + 1, changed.status_code == 302

    cases = [case for case in CASES if case["category"] == category][share::SHARES]
    assert [case["id"] for case in cases if set(is_taken_by_the_pages(case["url"])) != {is_accepted(case)}] == []
    assert saved_urls() - {PUBLIC} == {case["url"] for case in cases if is_accepted(case)}


class Names:
    """A resolver that returns the last answer of each name in the table, and records its calls."""

    def __init__(self):
        self.asked = set()
        named = [case for case in CASES if "resolves_to" in case]
        self._answers = {re.split("[/?]", case["url"])[2]: case["resolves_to"] for case in named}

    def __call__(self, host, _port):
        self.asked.add(host)
        answers = self._answers.get(host, ["93.184.216.34"])
        return answers[-1] if isinstance(answers[-1], list) else answers


def storable(cases):
    """Return the cases that fit into a row of every database."""
    fitting = [case for case in cases if len(case["url"]) <= 2048 and "\0" not in case["url"]]
    return [case for case in fitting if not any("\ud800" <= character <= "\udfff" for character in case["url"])]


def attempt_everything_at(alice, cases, transport):
    """Store the URLs without validation and make attempts of each kind. Return the results by URL and kind."""
    for case in cases:
        for status in ("active", "pending"):
            webhook = make_webhook(alice, url=PUBLIC, status=status, retry_policy="extended")
            if status == "pending":
                send_test_event(webhook, EVENT_TYPE)
            Webhook.objects.filter(pk=webhook.pk).update(url=case["url"])
    emit_one(alice)
    Engine(transport=transport).run_until_idle(await_retries=False)
    attempts = DeliveryAttempt.objects.filter(number=1).select_related("delivery")
    return {(attempt.url, attempt.delivery.kind): attempt for attempt in attempts}


@pytest.mark.parametrize(
    "cases",
    [
        pytest.param(REFUSED, marks=pytest.mark.only_on("sqlite"), id="refused-at-create"),
        pytest.param(BLOCKED, id="blocked-at-send"),
    ],
)
@pytest.mark.long
def test_no_kind_of_attempt_reaches_a_refused_address(alice, transport_name, cases):
    names = Names()
    transport = make_transport(transport_name, replace(transport_options(), resolve=names))

    attempts = attempt_everything_at(alice, storable(cases), transport)

    assert attempts.keys() == {(case["url"], kind) for case in storable(cases) for kind in KINDS}
    assert {(attempt.result, attempt.peer) for attempt in attempts.values()} == {("address_refused", "")}
    assert bool(names.asked) == (cases is BLOCKED)


@pytest.mark.parametrize("case", REDIRECTING, ids=lambda case: case["id"])
def test_no_kind_of_attempt_follows_a_redirect(alice, transport_name, settings, case):
    settings.WEBHOOKS_ALLOW_HTTP = True
    settings.WEBHOOKS_ALLOWED_NETWORKS = ["127.0.0.0/8"]
    location = case["redirect_to"].encode()
    moved = b"HTTP/1.1 302 Found\r\nConnection: close\r\nContent-Length: 0\r\nLocation: " + location + b"\r\n\r\n"

    with receiving({"/moved": moved}) as receiver:
        transport = make_transport(transport_name, transport_options())
        attempts = attempt_everything_at(alice, [{"url": receiver.url("/moved")}], transport)

        assert {kind for _, kind in attempts} == KINDS
        assert {(one.result, one.response_status) for one in attempts.values()} == {("http_status", 302)}
        assert len(receiver.requests) == DeliveryAttempt.objects.count()  # a slow run includes retries
