"""Every page of the console in a browser, light and dark, wide and narrow, under a strict Content-Security-Policy."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import DEFAULT_DB_ALIAS
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import Browser
from playwright.sync_api import Page as Tab

from webhooks_app.maintenance.jobs import gauge
from webhooks_app.maintenance.rollups.recent import pack, sum_up
from webhooks_app.models import ApiKey, AuditEntry, Delivery, MaintenanceJob, QueueEntry, Webhook
from webhooks_app.operations.actors import PROJECT
from webhooks_app.operations.registration import update_webhook

from ..support.rows import make_backlog
from .conftest import Console, a_problem, a_replay, an_active_webhook, failed_delivery
from .inspection import LOOKS, inspect, looking, overflow, problems_of

pytestmark = pytest.mark.only_on("sqlite")


def url(name: str, *args: Any, query: str = "") -> str:
    return reverse(f"admin:webhooks_app_{name}", args=args) + query


def a_changed_webhook() -> Webhook:
    """Return a webhook with audit entries of maximum length."""
    webhook = an_active_webhook()
    update_webhook(webhook, description="x" * 200, actor=PROJECT)
    webhook.disable("y" * 500)
    return webhook


def choose(action: str) -> Callable[[Tab], None]:
    """Choose an action for the longest or first row of a list, which leads to its confirmation page."""

    def choose(tab: Tab) -> None:
        longest = tab.locator("#result_list tbody tr", has_text="a" * 60)
        row = longest if longest.count() else tab.locator("#result_list tbody tr")
        row.first.get_by_role("checkbox").check()
        tab.select_option("select[name=action]", action)
        tab.locator("#changelist-form").evaluate("form => form.requestSubmit(form.querySelector('[name=index]'))")
        tab.wait_for_selector("form input[name=confirmed]", state="attached")

    return choose


def confirm(action: str) -> Callable[[Tab], None]:
    """Choose an action and confirm it."""

    def confirm(tab: Tab) -> None:
        choose(action)(tab)
        with tab.expect_navigation():
            tab.click("form:has(input[name=confirmed]) input[type=submit]")

    return confirm


def save(*checked: str, **fields: str) -> Callable[[Tab], None]:
    """Fill in the form, check these boxes, and save it."""

    def save(tab: Tab) -> None:
        for value in checked:
            tab.locator(f"[type=checkbox][value='{value}']").check()
        for name, value in fields.items():
            tab.fill(f"[name={name}]", value)
        with tab.expect_navigation():
            tab.locator("[name=_save]").first.click()

    return save


def receivers() -> str:
    ids = list(Webhook.objects.order_by("pk").values_list("pk", flat=True))
    pack(DEFAULT_DB_ALIAS, 0, ids, sum_up(DEFAULT_DB_ALIAS, ids, timezone.now()))
    return url("receivers_changelist", query="?window=week")


def succeeded_deliveries() -> str:
    """Return the list of deliveries that may be redelivered: of events, to a webhook that still receives them."""
    sent = Delivery.objects.filter(state=Delivery.State.SUCCEEDED, kind=Delivery.Kind.EVENT)
    active = sent.filter(webhook__status=Webhook.Status.ACTIVE, webhook__deleted_at=None).latest("pk")
    return url("delivery_changelist", query=f"?webhook_id={active.webhook_id}&state=succeeded&kind=event")


def operations() -> str:
    """Queue deliveries of the next hour, and count them as a worker does."""
    webhook, facts = an_active_webhook(), dict[str, Any]()
    for number in (1, 20, 45):
        make_backlog(webhook, number)
        now = timezone.now()
        due = QueueEntry.objects.filter(webhook=webhook, due_at__lte=now)
        due.update(due_at=now + timedelta(minutes=number))
    gauge(DEFAULT_DB_ALIAS, now, facts)
    MaintenanceJob.objects.update_or_create(name="gauges", defaults={"facts": facts, "ended_at": now})
    return url("operations_changelist")


def shows(selector: str) -> Callable[[Tab], None]:
    """Wait for an element, such as a part of a chart, which needs no visible area."""

    def wait(tab: Tab) -> None:
        tab.wait_for_selector(selector, state="attached")

    return wait


PAGES: dict[str, tuple[Callable[[], str], Callable[[Tab], None]]] = {}
"""The path of each page, and steps before its inspection."""


def add(name: str, path: Callable[[], str], then: Callable[[Tab], None] = lambda tab: None) -> None:
    PAGES[name] = (path, then)


add("index", lambda: reverse("admin:app_list", args=["webhooks_app"]))
add("search", lambda: url("webhook_search", query="?q=https"))
add("search, none found", lambda: url("webhook_search", query="?q=nothing"))
add("receivers", receivers)
add("webhooks", lambda: url("webhook_changelist"))
add("webhooks, none found", lambda: url("webhook_changelist", query="?q=nothing&created_after=never"))
add("webhooks, filtered", lambda: url("webhook_changelist", query="?status=active"))
add("webhook", lambda: url("webhook_change", an_active_webhook().pk))
add("webhook, settings", lambda: url("webhook_change", an_active_webhook().pk, query="?section=settings"))
add("webhook, deliveries", lambda: url("webhook_change", an_active_webhook().pk, query="?section=deliveries"))
add("webhook, verification", lambda: url("webhook_change", an_active_webhook().pk, query="?section=verification"))
add("webhook, try a filter", lambda: url("webhook_act", an_active_webhook().pk, "try_filter"))
add("webhook, history", lambda: url("webhook_history", a_changed_webhook().pk))
add("webhook, delete", lambda: url("webhook_delete", an_active_webhook().pk))
add("webhook, add", lambda: url("webhook_add"))
add("webhook, add, wrong", lambda: url("webhook_add"), save(url="http://10.0.0.1/"))
add("webhooks, verify", lambda: url("webhook_changelist"), choose("verify"))
add("webhooks, test", lambda: url("webhook_changelist"), choose("send_test"))
add("webhooks, disable", lambda: url("webhook_changelist"), choose("disable"))
add("webhooks, rotate", lambda: url("webhook_changelist"), choose("rotate_secret"))
add("webhooks, new secret", lambda: url("webhook_changelist"), confirm("rotate_secret"))
add("deliveries", lambda: url("delivery_changelist"))
add("delivery", lambda: url("delivery_change", failed_delivery().pk))
add("deliveries, redeliver", succeeded_deliveries, choose("redeliver"))
add("events", lambda: url("event_changelist"))
add("event", lambda: url("event_change", failed_delivery().event_id), shows("svg title:has-text('Attempt 1')"))
add("event types", lambda: url("eventtypes_changelist"))
add("event type", lambda: url("webhook_event_type", "ppt.generation.completed"))
add("problems", lambda: url("problem_changelist", query=f"?q={a_problem().webhook_id}"))
add("impact", lambda: url("problem_impact", query=f"?answer={a_problem().code}"))
add("problem", lambda: url("problem_change", a_problem().pk))
add("problem, ignore", lambda: url("problem_act", a_problem().pk, "ignore"))
add("replays", lambda: url("replay_changelist", query=f"?q={a_replay().webhook_id}"))
add("replay", lambda: url("replay_change", a_replay().pk))
add("replay, add", lambda: url("replay_add", query=f"?webhook={an_active_webhook().pk}"))
add("replay, cancel", lambda: url("replay_act", a_replay().pk, "cancel"))
add("operations", operations, shows("figure svg path"))
add("keys", lambda: url("apikey_changelist"))
add("key", lambda: url("apikey_change", ApiKey.objects.latest("pk").pk))
add("key, add", lambda: url("apikey_add"))
add("key, new", lambda: url("apikey_add"), save("webhooks:read", owner="root", name="Integration"))
add("key, revoke", lambda: url("apikey_act", ApiKey.objects.latest("pk").pk, "revoke"))
add("key, delete", lambda: url("apikey_delete", ApiKey.objects.latest("pk").pk))
add("audit", lambda: url("auditentry_changelist", query=f"?q={a_changed_webhook().pk}"))
add("audit entry", lambda: url("auditentry_change", AuditEntry.objects.latest("pk").pk))

RULE = """
    rule => {
        const sheet = new CSSStyleSheet();
        sheet.replaceSync(rule);
        document.adoptedStyleSheets = [sheet];
    }
"""

CHANGES_WHEN_HIDDEN = """() => {
    const change = () => { document.querySelector("main").innerHTML = "<input>"; };
    const look = () => { document.hidden ? change() : setTimeout(look); };
    look();
}"""

EMPTY = ("index", "receivers", "webhooks", "deliveries", "events", "keys")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_accessible(browser: Browser, console: Console, name: str) -> None:
    path, then = PAGES[name]

    assert inspect(browser, console, name, path(), then) == []


@pytest.mark.parametrize("name", EMPTY)
def test_an_empty_page_is_accessible(browser: Browser, empty_console: Console, name: str) -> None:
    path, then = PAGES[name]

    assert inspect(browser, empty_console, f"{name}, empty", path(), then) == []


def test_violations_of_the_policy_are_found(browser: Browser, console: Console) -> None:
    def break_rules(tab: Tab) -> None:
        tab.evaluate("document.body.insertAdjacentHTML('beforeend', '<p style=\"color: red\">red</p>')")

    found = inspect(browser, console, "broken", url("webhook_changelist"), break_rules)

    assert any("Content Security Policy" in each for each in found)


def test_overflow_and_missing_names_are_found(browser: Browser, console: Console) -> None:
    def break_rules(tab: Tab) -> None:
        tab.evaluate("document.body.insertAdjacentHTML('beforeend', '<input><p>' + 'x'.repeat(2000) + '</p>')")

    found = " ".join(inspect(browser, console, "broken", url("webhook_changelist"), break_rules))

    assert "pixels wide" in found
    assert "critical" in found


@pytest.mark.parametrize(
    ("when", "fault", "found_in"),
    [
        ("prefers-color-scheme: light", "color: #999; background: #aaa", "light 1440"),
        ("prefers-color-scheme: dark", "color: #999; background: #aaa", "dark 390"),
        ("min-width: 1000px", "width: 3000px", "light 1440"),
        ("max-width: 400px", "width: 600px", "dark 390"),
    ],
)
def test_a_fault_of_one_look_is_found(
    browser: Browser, empty_console: Console, when: str, fault: str, found_in: str
) -> None:
    def break_rules(tab: Tab) -> None:
        tab.evaluate(RULE, f"@media ({when}) {{ h1 {{ {fault} }} }}")

    found = inspect(browser, empty_console, "broken", url("apikey_changelist"), break_rules)

    assert {each.partition(":")[0] for each in found} == {found_in}


def test_small_targets_are_found(browser: Browser, console: Console) -> None:
    def break_rules(tab: Tab) -> None:
        small = "<p style='display: grid'>" + "<a href='?' style='font-size: 8px'>a</a>" * 3 + "</p>"
        tab.evaluate(f'document.querySelector("#content-main").insertAdjacentHTML("afterbegin", "{small}")')

    found = " ".join(inspect(browser, console, "broken", url("webhook_changelist"), break_rules))

    assert "(target-size)" in found


@pytest.mark.parametrize("style", ["overflow: hidden", "overflow: auto"])
def test_clipped_text_is_found(browser: Browser, style: str) -> None:
    tab = browser.new_page()
    tab.set_content(f"<p style='width: 100px; {style}'>{'x' * 500}</p>")

    (found,) = overflow(tab)

    assert found.startswith("p is ")
    assert found.endswith(" room for 100")


@pytest.mark.parametrize(("anchor", "number"), [("middle", 1), ("end", 0)])
def test_a_label_that_a_chart_cuts_off_is_found(browser: Browser, anchor: str, number: int) -> None:
    tab = browser.new_page()
    label = f"<text x='100' y='10' text-anchor='{anchor}'>28 Nov</text>"
    tab.set_content(f"<svg width='100' height='20'>{label}</svg>")

    assert len(overflow(tab)) == number


@pytest.mark.parametrize(
    ("width", "around", "number"),
    [(390, "<div>", 0), (1440, "<div>", 1), (1440, "<div data-log><section style='width: 600px'>", 0)],
    ids=["narrow screen", "wide screen", "narrow pane"],
)
def test_tables_may_scroll_only_where_there_is_little_room(
    browser: Browser, width: int, around: str, number: int
) -> None:
    tab = browser.new_page(viewport={"width": width, "height": 800})
    tab.set_content(f"{around}<div style='width: 100px; overflow: auto'><table><td>{'x' * 500}</table></div></div>")

    assert len(overflow(tab)) == number


def test_a_page_that_changes_during_its_inspection_is_inspected_again(browser: Browser) -> None:
    tab = browser.new_page()
    tab.set_content("<!DOCTYPE html><html lang='en'><title>Page</title><main><p>Text</p></main>")
    tab.evaluate(CHANGES_WHEN_HIDDEN)

    assert "critical" in " ".join(problems_of(tab, LOOKS[0]))


def test_the_page_of_a_webhook_opens_short_with_its_url_at_the_top(browser: Browser, console: Console) -> None:
    for webhook in Webhook.objects.filter(deleted_at=None):
        with looking(browser, console, LOOKS[0]) as (tab, problems):
            tab.goto(console.address + url("webhook_change", webhook.pk))
            shown = tab.get_by_role("region", name="State", exact=True).locator("strong").first.bounding_box()
            height = tab.evaluate("document.documentElement.scrollHeight")
            history = tab.get_by_role("link", name="History", exact=True)
            assert (history.count(), history.locator("xpath=ancestor::ul//a").count() > 1) == (1, True)
            assert shown is not None
            assert (shown["y"] < 300, height <= 1400, problems) == (True, True, []), (webhook.url, shown, height)


def test_the_form_of_a_new_webhook_begins_above_the_fold(browser: Browser, console: Console) -> None:
    with looking(browser, console, LOOKS[0]) as (tab, _problems):
        tab.goto(console.address + url("webhook_add"))
        rows = tab.locator("fieldset > div").all()[:3]
        ends = [box["y"] + box["height"] for row in rows if (box := row.bounding_box()) is not None]

    assert len(ends) == 3
    assert max(ends) <= LOOKS[0].height
