"""The customers' pages in a browser, with hostile texts everywhere, under their own Content-Security-Policy."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import Browser, Dialog, expect
from playwright.sync_api import Page as Tab

from tests.maintenance.rollups.conftest import make_tally
from webhooks_app.maintenance.rollups.folding import fold
from webhooks_app.models import Delivery, Webhook
from webhooks_app.operations.actors import PROJECT
from webhooks_app.operations.lifecycle import start_verification
from webhooks_app.operations.registration import update_webhook
from webhooks_app.portal import catalogue, portal_url, urls
from webhooks_app.receiver.local import Answers

from ..portal.conftest import Customer, make_customer
from ..portal.hostile import SCRIPT, make_hostile
from ..portal.test_routes import ELSEWHERE, ROUTES, names, path_of, paths_of
from ..support.rows import EVENT_TYPE, emit_one, make_webhook
from .conftest import Login, Receiver, new_session
from .inspection import Look, keep_picture, looking, problems_of

pytestmark = [pytest.mark.only_on("sqlite"), pytest.mark.timeout(300)]

LOOKS = (
    Look(theme="light", width=1440, height=900, measures_targets=True),
    Look(theme="dark", width=390, height=844, language="de", measures_targets=True),
)

NO_PAGES = {"link-end", "link-damaged"}
"""Routes that show only fixed texts: of a POST, and of a link that is not valid."""

OTHERS: dict[str, Callable[[Customer], str]] = {
    "accounts": lambda customer: reverse("webhooks_portal:accounts"),
    "link": lambda customer: portal_url(customer.user),
    "catalogue": lambda customer: reverse("webhooks_catalogue:event-types"),
    "type of the catalogue": lambda customer: reverse("webhooks_catalogue:event-type", args=(EVENT_TYPE,)),
    "webhooks, filtered": lambda customer: customer.url("webhooks") + WRONG,
    "deliveries, filtered": lambda customer: customer.url("deliveries") + WRONG,
    "events, filtered": lambda customer: customer.url("events") + WRONG,
    "deliveries, searched": lambda customer: customer.url("deliveries") + SEARCHED,
    "webhooks, none found": lambda customer: customer.url("webhooks") + SEARCHED,
    "test, answered": lambda customer: (
        customer.url("webhook-test", customer.webhook.pk) + f"?delivery={customer.delivery.pk}"
    ),
}
"""Pages without an account, and lists whose filters are hostile."""

FIELDS = ("q", "state", "status", "health", "result", "answer", "webhook_id", "event_type", "type", "kind", "period")
FIELDS += ("replay_id", "created_after", "finished_before", "cursor")
WRONG = "?" + "&".join(f"{name}={SCRIPT.replace('&', '%26').replace('+', '%2B')}" for name in FIELDS)
SEARCHED = f"?q={SCRIPT[:100].replace('+', '%2B')}"

FORMS = ("webhook-new", "webhook-settings", "webhook-test", "webhook-rotate", "replay-new", "key-new")

FILL = """
(script) => {
    const form = document.querySelector("form[method=post]:has(:is(input:not([type=hidden]), textarea))");
    form.noValidate = true;
    for (const each of form.querySelectorAll("input, textarea")) {
        if (each.name === "csrfmiddlewaretoken" || ["checkbox", "radio", "submit"].includes(each.type)) continue;
        each.type = each.tagName === "INPUT" ? "text" : each.type;
        each.removeAttribute("maxlength");
        each.value = script;
    }
    setTimeout(() => form.requestSubmit());
}
"""
"""Fill every field of a form with a script, and send it."""


@pytest.fixture
def customer(live_server: Any, settings: Any) -> Customer:
    settings.WEBHOOKS_OWNERS = "tests.portal.conftest.EveryOwner"
    make_customer("boris")
    customer = make_customer("amina")
    make_hostile(customer)
    counted = {"succeeded_at_once": 6, "succeeded_later": 3, "given_up": 2, "failed_timeout": 8, "ms_sum": 900}
    for hours in (0, 3, 4):
        make_tally(timezone.now() - timedelta(hours=hours), **{customer.webhook.pk: {**counted, "ms_100": 8 + hours}})
    fold("default")
    return customer


def test_every_route_has_a_page_here() -> None:
    visited = ROUTES.keys() | OTHERS.keys() | NO_PAGES

    assert set(names(urls.urlpatterns)) <= visited
    assert visited >= ELSEWHERE
    assert len(list(names(catalogue.urlpatterns))) == 2


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: f"{look.theme}-{look.language}")
def test_every_page_is_accessible_and_runs_no_hostile_text(
    browser: Browser, live_server: Any, customer: Customer, look: Look
) -> None:
    found: dict[str, list[str]] = {}
    with looking(browser, Login(address=live_server.url, session=new_session(customer.user)), look) as (tab, problems):

        def alerted(dialog: Dialog) -> None:
            problems.append(f"a hostile text showed {dialog.message!r}")
            dialog.dismiss()

        tab.on("dialog", alerted)
        for name, path, status in _pages(customer):
            response = tab.goto(live_server.url + path)
            assert response is not None
            assert response.status == status, name
            found[name] = [*_problems(tab, name, look), *_taken(problems)]
            assert path != customer.url("overview") or tab.locator("figure svg").count() == 2  # its charts
        for name in FORMS:
            tab.goto(live_server.url + path_of(name, customer, customer))
            with tab.expect_navigation():
                tab.evaluate(FILL, SCRIPT)
            found[f"{name}, refused"] = [*_problems(tab, f"{name}, refused", look), *_taken(problems)]
            assert tab.locator("[aria-invalid=true]").count(), name

    assert {name: each for name, each in found.items() if each} == {}


def test_an_open_page_shows_one_moment(browser: Browser, live_server: Any, customer: Customer) -> None:
    webhook = make_webhook(customer.user, EVENT_TYPE, status="pending")
    start_verification(webhook, actor=PROJECT)
    with browser.new_context(locale="en") as context:
        context.add_cookies([Login(address=live_server.url, session=new_session(customer.user)).cookie])  # type: ignore[list-item]
        tab = context.new_page()
        tab.goto(live_server.url + customer.url("webhook", webhook.pk))
        expect(tab.get_by_text("Verification in progress")).to_be_visible()
        tab.get_by_role("region", name="State").get_by_role("link", name="Send a test event").focus()  # it stays in use

        Webhook.objects.get(pk=webhook.pk).activate()
        # Last, because the page may be read in between.
        Delivery.objects.handshakes().filter(webhook=webhook).update(state=Delivery.State.SUCCEEDED)

        expect(tab.get_by_text("Verified: the URL returned the challenge")).to_be_visible()
        assert tab.get_by_text("Not verified yet").is_visible()
        tab.evaluate("document.activeElement.blur()")
        expect(tab.get_by_text("Not verified yet")).to_have_count(0)
        assert tab.get_by_text("No requests yet").is_visible()


def test_both_urls_are_shown_until_the_new_one_is_verified(
    browser: Browser, live_server: Any, customer: Customer, receiver: Receiver, worker: None
) -> None:
    receiver.may_answer.clear()
    receiver.secrets = ()
    webhook = make_webhook(customer.user, EVENT_TYPE)
    new = f"{receiver.url}new"
    update_webhook(webhook, actor=PROJECT, url=new)
    with browser.new_context(locale="en") as context:
        context.add_cookies([Login(address=live_server.url, session=new_session(customer.user)).cookie])  # type: ignore[list-item]
        tab = context.new_page()
        tab.goto(live_server.url + customer.url("webhook", webhook.pk))
        both = tab.get_by_text(f"until {new} is verified")
        expect(both).to_have_count(2)

        receiver.may_answer.set()

        expect(tab.get_by_text("Verified: the URL returned the challenge")).to_be_visible()
        expect(tab.get_by_text(new, exact=True).first).to_be_visible()
        assert both.count() == 0


def test_an_open_page_needs_no_link_to_refresh_it(
    browser: Browser, live_server: Any, customer: Customer, receiver: Receiver, worker: None
) -> None:
    receiver.answers = Answers(statuses=(500,))
    webhook = make_webhook(customer.user, EVENT_TYPE, url=f"{receiver.url}hook")
    emit_one(customer.user)
    with browser.new_context(locale="en") as context:
        context.add_cookies([Login(address=live_server.url, session=new_session(customer.user)).cookie])  # type: ignore[list-item]
        tab = context.new_page()
        tab.goto(live_server.url + customer.url("webhook", webhook.pk))

        expect(tab.get_by_text(re.compile(r"The last \d requests failed"))).to_be_visible()

        assert tab.get_by_role("link", name="Refresh").is_hidden()


def test_times_are_in_the_zone_of_the_browser_from_the_second_page_on(
    browser: Browser, live_server: Any, customer: Customer
) -> None:
    with browser.new_context(locale="en", timezone_id="Asia/Tokyo") as context:
        context.add_cookies([Login(address=live_server.url, session=new_session(customer.user)).cookie])  # type: ignore[list-item]
        tab, zones = context.new_page(), []
        for _ in range(2):
            tab.goto(live_server.url + customer.url("overview"))
            zones.append(tab.get_by_text("Time zone:").inner_text())

    assert zones == ["Time zone: UTC", "Time zone: Asia/Tokyo"]


def _pages(customer: Customer) -> Iterator[tuple[str, str, int]]:
    """Yield the name, the path and the status of each page."""
    for name in ROUTES:
        for path in paths_of(name, customer, customer):
            if not path.endswith("/explode/"):
                yield f"{name} {path.split('/')[-2]}", path, 200
    for name, path_for in OTHERS.items():
        yield name, path_for(customer), 200


def _problems(tab: Tab, name: str, look: Look) -> Iterator[str]:
    yield from problems_of(tab, look)
    keep_picture(tab, f"portal {name} {look.width} {look.theme}")
    if tab.title() == "hostile":
        yield "a hostile text was run"


def _taken(problems: list[str]) -> list[str]:
    taken = problems[:]
    problems.clear()
    return taken
