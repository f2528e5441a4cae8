"""Hostile requests of staff, and hostile contents of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.sessions.models import Session
from django.core.cache import cache
from django.urls import URLPattern
from django.views.debug import ExceptionReporter

from tests.support.reading import refused
from webhooks_app.admin import WebhookAdmin
from webhooks_app.admin.webhooks import PAGES as ENTRIES
from webhooks_app.models import ApiKey, Delivery, Event, Problem, Replay, Webhook
from webhooks_app.operations.sending import send_test_event

from ..support.rows import end_deliveries, make_problem, plan_replay, unverified
from .conftest import SECRET, Page, shown_messages, shows, text

pytestmark = pytest.mark.only_on("sqlite")

MODELS = (Webhook, Event, Delivery, ApiKey, Replay, Problem)
VIEW = ("view_webhook", "view_event", "view_delivery", "view_apikey", "view_replay", "view_problem")
FORMS: dict[str, dict[str, Any]] = {
    "webhook": {"url": "https://evil.example.com/", "event_types": ["file.deleted"], "description": "changed"},
    "apikey": {"name": "changed", "scopes": ["webhooks:read"]},
    "replay": {"states": ["missed"]},
}


@pytest.fixture(autouse=True)
def _unlimited() -> None:
    cache.clear()


@pytest.fixture
def rows(delivery: Delivery, owner: Any) -> dict[str, Any]:
    """One row of each model, by its name."""
    api_key, _ = ApiKey.objects.make(owner=owner)
    replay = plan_replay(delivery.webhook)
    return {
        "webhook": delivery.webhook,
        "event": delivery.event,
        "delivery": delivery,
        "apikey": api_key,
        "replay": replay,
        "problem": make_problem(delivery.webhook, code=503),
    }


def saved() -> list[Any]:
    return [list(model.objects.order_by("pk").values()) for model in (*MODELS, LogEntry)]


def pages() -> Iterator[tuple[str, str, bool]]:
    """Yield each page of the console: the model, the page, and True for a page about a row."""
    for model in (*MODELS, *ENTRIES):
        for pattern in admin.site._registry[model].get_urls():
            if isinstance(pattern, URLPattern) and (pattern.name or "").startswith("webhooks_app_"):
                name, _, page = str(pattern.name).removeprefix("webhooks_app_").partition("_")
                yield name, page, "object_id" in str(pattern.pattern)


def actions() -> Iterator[tuple[str, str]]:
    for model in MODELS:
        names = admin.site._registry[model].actions
        yield from ((str(model._meta.model_name), str(action)) for action in {*names, "delete_selected"})


PAGES = list(pages())
MORE_ARGS = {
    "act": {"webhook": "disable", "delivery": "redeliver", "apikey": "revoke", "replay": "cancel", "problem": "ignore"},
    "live": {"webhook": "recent"},
    "shown": dict.fromkeys(("webhook", "apikey"), "token"),
    "link": {"webhook": "token"},
}
"""Further parts of a page's URL."""
READ_ONLY = (
    *("changelist", "history", "live", "event_type", "check_url"),
    *("search", "shown", "export", "overview", "impact", "owners"),
)
ACTIONS = sorted(actions())


OF_FORMS = ("check_url", "owners")
"""Pages of those who may add or change rows."""
CONFIRMATIONS = {"post": "yes", "confirmed": "yes", "format": "csv"}


def address(rows: dict[str, Any], model: str, page: str, of_row: bool) -> tuple[str, ...]:
    """Return the arguments of a page's URL."""
    if page == "event_type":
        return ("file.deleted",)
    more = MORE_ARGS.get(page, {}).get(model)
    return ((rows[model].pk,) if of_row else ()) + ((more,) if more else ())


def test_the_walk_knows_every_page_and_action() -> None:
    usual = {"changelist", "add", "history", "delete", "change"}
    assert {page for _, page, _ in PAGES} == {*usual, "act", *MORE_ARGS, *READ_ONLY}
    assert len(PAGES) == 27 + 6 + 5 + 8 + 7 + 3 + 2
    assert len(ACTIONS) >= 12


@pytest.mark.parametrize(("model", "page", "of_row"), PAGES, ids=str)
@pytest.mark.parametrize("permissions", [(), VIEW])
def test_a_post_without_permission_changes_nothing(
    staff: Callable[..., Page], rows: dict[str, Any], model: str, page: str, of_row: bool, permissions: tuple[str, ...]
) -> None:
    caller = staff("berta", *permissions, "manage_all_webhooks")
    before = saved()

    answer = caller.post(model, page, *address(rows, model, page, of_row), **FORMS.get(model, {}), **CONFIRMATIONS)

    is_open = model == "operations" or (permissions and page in READ_ONLY and page not in OF_FORMS)
    is_entry = page != "export" and model in [entry._meta.model_name for entry in ENTRIES]
    assert answer.status_code == ((405 if is_entry else 200) if is_open else 403)
    assert saved() == before


@pytest.mark.parametrize(("model", "page", "of_row"), PAGES, ids=str)
def test_only_staff_are_admitted(rows: dict[str, Any], owner: Any, model: str, page: str, of_row: bool) -> None:
    before = saved()

    answer = Page(owner).post(model, page, *address(rows, model, page, of_row), **FORMS.get(model, {}), **CONFIRMATIONS)

    assert answer.redirect_chain[0][0].startswith("/admin/login/")
    assert saved() == before


@pytest.mark.parametrize(("model", "action"), ACTIONS)
def test_without_its_permission_an_action_does_nothing(
    staff: Callable[..., Page], rows: dict[str, Any], model: str, action: str
) -> None:
    caller = staff("berta", *VIEW, "manage_all_webhooks")
    before = saved()

    caller.act(action, rows[model], confirmed=True, post="yes", event_type="file.deleted", overlap_hours="1")

    assert saved() == before


@pytest.mark.parametrize(("model", "action"), [pair for pair in ACTIONS if pair[0] != "event"])
def test_an_action_asks_for_confirmation(superuser: Page, rows: dict[str, Any], model: str, action: str) -> None:
    if action == "enable":
        rows[model].disable("by hand")
    before = saved()

    answer = superuser.act(action, rows[model])

    assert saved() == before
    if (model, action) not in (("delivery", "delete_selected"), ("replay", "delete_selected")):
        assert rows[model].pk in text(answer) or rows[model].prefix in text(answer)
        assert 'type="submit"' in text(answer)


@pytest.mark.parametrize("model", ["webhook", "apikey"])
def test_bulk_deletion_is_limited(
    superuser: Page, rows: dict[str, Any], new_webhook: Any, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    monkeypatch.setattr("webhooks_app.admin.actions.MAX_SELECTED", 1)
    items = [rows[model], new_webhook(None) if model == "webhook" else ApiKey.objects.make(owner=superuser.user)[0]]
    before = saved()

    answer = superuser.act("delete_selected", *items, post="yes")

    assert shown_messages(answer) == ["Select at most 1 at once."]
    assert saved() == before


HOSTILE_QUERIES = [
    "q=%00",
    "q=wh_%00",
    "q=whk_%00",
    "q=whk_",
    "event_type=%00",
    "status=%00",
    "state=%00",
    "kind=%00",
    "created_at__gte=%00",
    "created_at__gte=99999-01-01",
    "test=%00",
    "p=99999999999999999999",
    "p=-1",
    "o=1.2.3",
    "all=",
    "%00=%00",
    "revoked=%00",
    "_to_field=signatures",
    "_to_field=digest&_popup=1",
    "_to_field=deliveries",
    "_to_field=deliveries&_popup=1",
]


@pytest.mark.parametrize("query", HOSTILE_QUERIES)
@pytest.mark.parametrize("model", ["webhook", "event", "delivery", "apikey"])
def test_no_query_breaks_a_list(superuser: Page, rows: dict[str, Any], model: str, query: str) -> None:
    superuser.client.raise_request_exception = False

    answer = superuser.client.get(f"/admin/webhooks_app/{model}/?{query}", follow=True)

    assert answer.status_code in (200, 400)


@pytest.mark.parametrize(
    ("model", "lookup"),
    [
        ("webhook", "signing_keys__encrypted_key__startswith"),
        ("webhook", "signing_keys__scheme__startswith"),
        ("webhook", "owner__password__startswith"),
        ("apikey", "digest__startswith"),
        ("event", "body__contains"),
        ("event", "owner__password__startswith"),
        ("delivery", "webhook__signing_keys__encrypted_key__startswith"),
        ("delivery", "attempts__response_body__contains"),
    ],
)
def test_a_list_accepts_only_its_own_filters(superuser: Page, rows: dict[str, Any], model: str, lookup: str) -> None:
    assert superuser.get(model, **{lookup: "a"}).status_code == 400


@pytest.mark.parametrize("identifier", ["%00", "_00", "wh_" + "9" * 32, "..%2F", "x" * 3000])
@pytest.mark.parametrize("page", ["change", "history", "delete"])
def test_no_identifier_breaks_a_page(superuser: Page, identifier: str, page: str) -> None:
    answer = superuser.client.get(f"/admin/webhooks_app/webhook/{identifier}/{page}/", follow=True)

    assert answer.status_code in (200, 404)


SECRET_OF_256_SIGNS = "🔑" * 256


@pytest.mark.parametrize("storage", ["fallback.FallbackStorage", "session.SessionStorage", "cookie.CookieStorage"])
@pytest.mark.parametrize("secret", [SECRET, SECRET_OF_256_SIGNS], ids=["short", "long"])
def test_a_shown_secret_is_not_in_the_session(superuser: Page, settings: Any, storage: str, secret: str) -> None:
    settings.MESSAGE_STORAGE = f"django.contrib.messages.storage.{storage}"
    form = {"url": "https://receiver.example.com/", "event_types": ["file.deleted"], "secret": secret}
    form |= {"audience": "every"}

    answer = superuser.client.post("/admin/webhooks_app/webhook/add/", form, follow=True)

    assert secret in answer.text
    assert not any("secret" in str(session.get_decoded()) for session in Session.objects.all())
    assert "messages" not in superuser.client.cookies


def test_a_shown_key_is_not_in_the_session(superuser: Page, owner: Any) -> None:
    form = {"name": "x", "scopes": ["webhooks:read"], "audience": "one", "owner": owner.pk}

    answer = superuser.client.post("/admin/webhooks_app/apikey/add/", form, follow=True)

    assert "whk_" in answer.text
    assert "whk_" not in " ".join(shown_messages(answer))  # which a cookie kept
    assert not any("whk_" in str(session.get_decoded()) for session in Session.objects.all())


def test_error_reports_contain_no_secret(
    superuser: Page, webhook: Webhook, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, settings: Any
) -> None:
    settings.WEBHOOKS_EGRESS_PROXY = "http://worker:p@ssword@proxy.example.com:3128"
    superuser.client.raise_request_exception = False
    form = {"url": "https://receiver.example.com/", "event_types": ["file.deleted"], "secret": SECRET}
    form |= {"audience": "every"}

    def broken(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("no luck")

    monkeypatch.setattr("webhooks_app.admin.webhooks.create_webhook", broken)
    monkeypatch.setattr(WebhookAdmin, "show_once", broken)
    superuser.post("webhook", "add", **form)
    superuser.act("rotate_secret", webhook, confirmed=True)

    records: list[Any] = [record for record in caplog.records if record.levelname == "ERROR"]
    reports = [ExceptionReporter(record.request, *record.exc_info, is_email=True) for record in records]
    assert len(reports) == 2
    assert all("@proxy.example.com:3128" in report.get_traceback_text() for report in reports)
    for secret in (SECRET, Webhook.objects.get().secret, "ssword", "worker:"):
        assert not any(secret in report.get_traceback_html() + report.get_traceback_text() for report in reports)


@pytest.mark.parametrize("action", ["verify", "send_test"])
def test_probes_of_the_console_have_the_rate_limit_of_the_api(
    staff: Callable[..., Page], new_webhook: Any, settings: Any, action: str
) -> None:
    settings.WEBHOOKS_PROBE_RATE = "2/min"
    caller = staff("berta", "view_webhook", "verify_webhook", "test_webhook")
    webhooks = [unverified(new_webhook(caller.user)) for _ in range(4)]

    answer = caller.act(action, *webhooks, confirmed=True, event_type="file.deleted")

    assert Delivery.objects.count() == 2
    assert [
        message
        for message in shown_messages(answer)
        if message.startswith("Too many tests and verifications of one account")
    ]
    assert len(shown_messages(answer)) == 2


def test_a_registration_counts_as_a_probe(superuser: Page, settings: Any) -> None:
    settings.WEBHOOKS_PROBE_RATE = "1/min"
    form = {"audience": "every", "url": "https://receiver.example.com/", "event_types": ["file.deleted"]}

    answers = [superuser.post("webhook", "add", **form) for _ in range(2)]

    assert Webhook.objects.count() == 1
    assert shows(answers[1], "Too many tests and verifications of one account")


def test_a_new_url_counts_as_a_probe(superuser: Page, webhook: Webhook, settings: Any) -> None:
    settings.WEBHOOKS_PROBE_RATE = "1/min"
    form = {"event_types": ["file.deleted"], "owner": webhook.owner.pk}

    for number in range(2):
        superuser.post("webhook", "change", webhook.pk, url=f"https://receiver.example.com/{number}", **form)

    assert Webhook.objects.get().pending_url.endswith("/0")


def test_a_redelivery_of_a_test_counts_as_a_test(superuser: Page, webhook: Webhook, settings: Any) -> None:
    settings.WEBHOOKS_TEST_RATE = "1/min"
    delivery = send_test_event(webhook, "file.deleted")
    end_deliveries(state="given_up")

    for _ in range(2):
        superuser.act("redeliver", delivery, confirmed=True)

    assert Delivery.objects.count() == 2


def test_the_owner_of_a_webhook_cannot_be_changed(superuser: Page, webhook: Webhook) -> None:
    form = {"url": webhook.url, "event_types": webhook.event_types, "owner": superuser.user.pk}

    superuser.post("webhook", "change", webhook.pk, **form)

    assert Webhook.objects.get().owner == webhook.owner


HOSTILE_FILTERS = [
    pytest.param("9" * 5000, id="digits"),
    pytest.param('{"a":' * 3000 + "1" + "}" * 3000, id="objects"),
    pytest.param("[" * 900 + "]" * 900, id="arrays"),
    pytest.param("[" * 40 + "]" * 40, id="levels"),
    pytest.param('"\\ud800"', id="surrogate"),
    pytest.param("NaN", id="constant"),
]


@pytest.mark.parametrize("source", HOSTILE_FILTERS)
def test_no_filter_breaks_a_form(superuser: Page, rows: dict[str, Any], source: str) -> None:
    webhook = rows["webhook"]
    form = {"url": webhook.url, "event_types": webhook.event_types, "filter": source}

    changed = superuser.post("webhook", "change", webhook.pk, **form)
    tried = superuser.act("try_filter", webhook, confirmed=True, event_id=rows["event"].pk, filter=source)

    webhook.refresh_from_db()
    assert webhook.filter is None
    assert [refused(text(answer)) for answer in (changed, tried)] == [["filter"], ["filter"]]


@pytest.mark.parametrize("source", HOSTILE_FILTERS)
def test_no_data_breaks_the_form_of_a_test_event(superuser: Page, rows: dict[str, Any], source: str) -> None:
    answer = superuser.act(
        "send_test", rows["webhook"], confirmed=True, event_type="file.deleted", event_data=f'{{"file_id": {source}}}'
    )

    assert refused(text(answer)) == ["event_data"]
