"""The customers' pages in a frame of another site, by clicking, also where the browser refuses its cookies."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from webhooks_app.models import Webhook
from webhooks_app.portal import portal_url
from webhooks_app.portal.visits import COOKIE

from ..portal.conftest import Customer, make_customer
from .conftest import PLAIN_HOST
from .inspection import LOOKS, keep_picture, problems_of

pytestmark = pytest.mark.only_on("sqlite")


class Site:
    """Another site with a page that shows a URL in a frame."""

    def __init__(self) -> None:
        self.framed = ""
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                page = (
                    f'<!DOCTYPE html><title>App</title><iframe src="{site.framed}" width="900" height="900"></iframe>'
                )
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(page.encode())

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    thread = threading.Thread(target=site.server.serve_forever)
    thread.start()
    yield site
    site.server.shutdown()
    site.server.server_close()
    thread.join()


@pytest.fixture
def customer(live_server: Any, settings: Any, site: Site) -> Customer:
    settings.WEBHOOKS_PORTAL_FRAME_ANCESTORS = site.url
    settings.ALLOWED_HOSTS = [*settings.ALLOWED_HOSTS, PLAIN_HOST]
    return make_customer("amina")


def test_the_pages_work_in_a_frame_of_another_site(
    browser: Browser, live_server: Any, site: Site, customer: Customer
) -> None:
    address, referers = live_server.url.replace("127.0.0.1", "localhost"), list[str]()
    with browser.new_context(locale="en") as context:
        tab = context.new_page()
        tab.on("request", lambda request: referers.append(request.headers.get("referer", "")))
        page = f"webhooks/{customer.webhook.pk}/settings/"
        site.framed = address + portal_url(customer.user, rights=("manage",), page=page)
        tab.goto(site.url)
        frame = tab.frame_locator("iframe")
        frame.get_by_role("button", name="Open").click()
        frame.get_by_text("How", exact=True).click()
        frame.get_by_role("link", name="Pause", exact=True).click()
        frame.get_by_role("button", name="Pause").click()

        expect(frame.get_by_text("Paused the webhook.")).to_be_visible()
        keep_picture(tab, "portal in a frame")
        assert Webhook.objects.get(pk=customer.webhook.pk).paused_at is not None
        cookies = {each["name"]: each for each in context.cookies()}
        assert (cookies[COOKIE]["sameSite"], cookies[COOKIE].get("partitionKey")) == ("None", "http://127.0.0.1")
        assert "csrftoken" not in cookies

        tab.reload()  # the link is used up, but the frame has its session
        expect(frame.get_by_role("link", name="Resume")).to_be_visible()
        frame.get_by_role("button", name="Leave").click()
        expect(frame.get_by_text("You have left the pages.")).to_be_visible()
        tab.reload()
        expect(frame.get_by_text("This link is no longer valid.")).to_be_visible()
        assert f"{address}/" in referers  # of the page of the link
        assert not [each for each in referers if "lnk_" in each]


def test_a_frame_without_cookies_offers_a_new_tab(
    browser: Browser, live_server: Any, site: Site, customer: Customer
) -> None:
    port = live_server.url.rpartition(":")[2]
    with browser.new_context(locale="en") as context:
        tab = context.new_page()
        site.framed = f"http://{PLAIN_HOST}:{port}" + portal_url(customer.user)
        tab.goto(site.url)
        frame = tab.frame_locator("iframe")
        frame.get_by_role("button", name="Open").click()
        with context.expect_page() as opened:
            frame.get_by_role("link", name="Open in a new tab").click()
        button = opened.value.get_by_role("button", name="Open")
        expect(button).to_be_visible()
        assert problems_of(opened.value, LOOKS[0]) == []
        keep_picture(opened.value, "portal link")
        button.click()

        expect(opened.value.get_by_role("heading", name="Overview")).to_be_visible()


def test_no_site_may_frame_the_pages_unless_it_is_named(
    browser: Browser, live_server: Any, site: Site, customer: Customer, settings: Any
) -> None:
    settings.WEBHOOKS_PORTAL_FRAME_ANCESTORS = "'none'"
    with browser.new_context() as context:
        tab = context.new_page()
        errors: list[str] = []
        tab.on("console", lambda message: errors.append(message.text))
        site.framed = live_server.url + portal_url(customer.user)
        tab.goto(site.url)

        expect(tab.frame_locator("iframe").get_by_role("button", name="Open")).not_to_be_visible()
        assert "frame-ancestors" in "".join(errors)
