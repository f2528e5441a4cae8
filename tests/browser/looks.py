"""Pictures of every page of the console and of the customers' pages in each look, to be looked at one by one.

``SCREENSHOTS=directory pytest tests/browser/looks.py -k "unfold-de"`` takes those of one theme and language.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import reverse
from playwright.sync_api import Browser
from playwright.sync_api import Page as Tab

from webhooks_app.models import ApiKey, Delivery, Webhook
from webhooks_app.portal import portal_url

from ..portal.conftest import Customer
from ..portal.test_routes import ROUTES, path_of
from ..support.rows import plan_replay
from .conftest import Console, Login, new_session, served_in
from .inspection import LOOKS, Look, keep_picture, looking, overflow, wear
from .test_pages import PAGES

pytestmark = [pytest.mark.only_on("sqlite"), pytest.mark.timeout(900)]

TRANSITION_MILLISECONDS = 250

SHAPES = [(theme, *size) for theme in ("light", "dark") for size in ((1440, 900), (390, 844))]


@pytest.mark.parametrize("language", ["en", "de"])
@pytest.mark.parametrize("admin", ["default", "unfold", "jazzmin"])
def test_every_page_has_its_pictures_taken(
    browser: Browser, console: Console, tmp_path: Path, language: str, admin: str
) -> None:
    found = {}
    with ExitStack() as stack:
        shown = console if admin == "default" else stack.enter_context(served_in(admin, console, tmp_path))
        tab, _ = stack.enter_context(looking(browser, shown, replace(LOOKS[0], language=language)))
        for name, (path, then) in PAGES.items():
            tab.emulate_media(color_scheme="light")
            tab.set_viewport_size({"width": 1440, "height": 900})
            tab.goto(shown.address + path())
            then(tab)
            found[name] = list(taken(tab, f"{admin} {name} {language}"))

    assert {name: each for name, each in found.items() if each} == {}


@pytest.mark.parametrize("language", ["en", "de"])
def test_every_page_of_the_customers_has_its_pictures_taken(browser: Browser, console: Console, language: str) -> None:
    customer = of_the_demo()
    newcomer = get_user_model().objects.create_user("newcomer")
    paths = {
        **{name: path_of(name, customer, customer) for name in ROUTES},
        **{f"{name}, empty": reverse(f"webhooks_portal:{name}", args=(newcomer.pk,)) for name in EMPTY},
        "webhook, failing": reverse("webhooks_portal:webhook", args=(customer.user.pk, customer.delivery.webhook_id)),
        "catalogue": "/event-types/",
        "link": portal_url(customer.user),
    }
    steps = {
        "webhook-new": lambda tab: send(tab, url="http://10.0.0.1/"),
        "key-new": lambda tab: send(tab, name="Import"),
        "webhook-rotate": send,
        "link": send,
    }
    found = {}
    login = Login(address=console.address, session=new_session(customer.user))
    newcomers = Login(address=console.address, session=new_session(newcomer))
    for name, path in paths.items():
        visitor = newcomers if "empty" in name or name == "link" else login
        with looking(browser, visitor, replace(LOOKS[0], language=language)) as (tab, _):
            tab.goto(console.address + path)
            found[name] = list(taken(tab, f"portal {name} {language}"))
            if name in steps:
                steps[name](tab)
                found[f"{name}, sent"] = list(taken(tab, f"portal {name} sent {language}"))

    assert {name: each for name, each in found.items() if each} == {}


def taken(tab: Tab, name: str) -> Iterator[str]:
    """Take the pictures of a page in each theme and width, and yield what is cut off."""
    for theme, width, height in SHAPES:
        wear(tab, Look(theme=theme, width=width, height=height))
        tab.wait_for_timeout(TRANSITION_MILLISECONDS)
        keep_picture(tab, f"{name} {theme} {width}")
        yield from overflow(tab)


EMPTY = ("overview", "webhooks", "deliveries", "events", "keys")


def of_the_demo() -> Customer:
    """Return an owner with the rows of the demo."""
    failed = Delivery.objects.filter(state=Delivery.State.GIVEN_UP, kind="event", webhook__owner__isnull=False)
    delivery = failed.latest("attempt_count", "pk")
    owner = delivery.webhook.owner
    webhook = Webhook.objects.filter(owner=owner, status=Webhook.Status.ACTIVE).latest("pk")
    key, _ = ApiKey.objects.make(owner=owner, name="Import")
    replay = plan_replay(webhook, since=webhook.created_at)
    rows = {"webhook": webhook, "event": delivery.event, "delivery": delivery, "replay": replay, "key": key}
    return Customer(user=owner, client=Client(), **rows)  # type: ignore[arg-type]


def send(tab: Tab, **fields: str) -> None:
    """Fill in the form of a page, and send it."""
    for name, value in fields.items():
        tab.fill(f"[name={name}]", value)
    with tab.expect_navigation():
        tab.locator("form[method=post] .webhooks-main").click()
