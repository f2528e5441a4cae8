"""Exports of lists: the same rows and values as in the list, in constant memory, with an audit entry."""

from __future__ import annotations

import csv
import gc
import io
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from weakref import WeakSet

import pytest
from asgiref.sync import async_to_sync
from django.conf import settings
from django.contrib import admin
from django.db import connection
from django.test import AsyncClient
from django.test.utils import CaptureQueriesContext
from django.utils import translation

from tests.support.rows import make_problem, plan_replay
from webhooks_app.admin import export
from webhooks_app.emission import emit
from webhooks_app.models import ApiKey, AuditEntry, Delivery, DeliveryAttempt, Webhook
from webhooks_app.pages import listing
from webhooks_app.reasons import ReasonText

from .conftest import DATA, Page, shows, text

LISTS = ("webhook", "delivery", "event", "problem", "replay", "auditentry", "apikey")


def exported(page: Page, model: str, query: str = "", **form: str) -> Any:
    """Return the answer to the button that exports a list as JSON lines."""
    url = f"/admin/webhooks_app/{model}/export/?{query}"
    return page.client.post(url, {"format": "ndjson", **form})


def rows(answer: Any) -> list[dict[str, Any]]:
    assert answer.status_code == 200, answer
    return [json.loads(line) for line in answer.getvalue().decode().splitlines()]


@pytest.fixture
def one_of_each(delivery: Delivery, owner: Any) -> Delivery:
    make_problem(delivery.webhook, 503)
    plan_replay(delivery.webhook, since=delivery.created_at - timedelta(hours=1))
    ApiKey.objects.make(owner=owner, name="ci")
    delivery.webhook.pause()
    facts = {"url": "https://sent.example.com/", "result": "http_status", "response_status": 503, "duration_ms": 120}
    DeliveryAttempt.objects.create(delivery=delivery, number=1, started_at=delivery.created_at, **facts)
    Delivery.objects.update(attempt_count=1, last_result="http_status")
    return delivery


EXPECTED: dict[str, dict[str, Any]] = {
    "webhook": {"url": "https://receiver.example.com/hooks", "account": "amina", "status": "active"},
    "delivery": {
        "state": "pending",
        "result": "http_status",
        "status_code": 503,
        "duration_ms": 120,
        "hold": "paused",
        "url": "https://sent.example.com/",
        "account": "amina",
        "event_type": "file.deleted",
        "kind": "event",
    },
    "event": {"type": "file.deleted", "is_test": False, "account": "amina", "webhooks": 1, "delivered": 0},
    "problem": {"result": "http_status", "status_code": 503, "state": "open", "account": "amina"},
    "replay": {"state": "done", "queued": 0, "requested_by": None},
    "auditentry": {"action": "webhook.paused", "by": "", "via": "code", "account": "amina"},
    "apikey": {"name": "ci", "account": "amina", "revoked_at": None},
}


@pytest.mark.parametrize("model", LISTS)
def test_a_row_has_the_values_of_the_list(superuser: Page, one_of_each: Delivery, model: str) -> None:
    query = "action=webhook.paused" if model == "auditentry" else ""

    (row,) = rows(exported(superuser, model, query))

    assert {name: row[name] for name in EXPECTED[model]} == EXPECTED[model]
    moments = [value for name, value in row.items() if name.endswith("_at") and value]
    assert moments
    assert all(datetime.fromisoformat(value).utcoffset() == timedelta() for value in moments)


@pytest.mark.parametrize("model", LISTS)
def test_every_list_has_buttons_and_exports_each_of_its_columns(
    superuser: Page, one_of_each: Delivery, model: str
) -> None:
    page = superuser.get(model)
    shown = page.context["cl"].model_admin

    assert shows(page, "Export CSV")
    assert shows(page, "Export NDJSON")
    assert all(shown._exported_under(column) for column in shown.list_display)
    assert 'action="export/' in text(page)


def test_no_list_is_without_an_export() -> None:
    lists = [
        each.opts.model_name
        for each in admin.site._registry.values()
        if each.opts.app_label == "webhooks_app"
        and issubclass(type(each), admin.ModelAdmin)
        and each.opts.managed
        and hasattr(each, "exported")
    ]

    assert sorted(lists) == sorted(LISTS)


def test_filters_and_search_apply(superuser: Page, one_of_each: Delivery, new_webhook: Callable[..., Webhook]) -> None:
    Delivery.objects.queue(webhook=new_webhook(None), kind="verification")

    found = {
        query: len(rows(exported(superuser, "delivery", query)))
        for query in ("", "kind=all", "state=given_up", "q=amina", "q=nobody", "answer=5xx", "answer=404")
    }

    assert list(found.values()) == [1, 2, 0, 1, 0, 1, 0]


@pytest.mark.only_on("sqlite", "postgresql", "mariadb")
def test_the_order_is_that_of_the_list_over_many_pages(superuser: Page, new_webhook: Callable[..., Webhook]) -> None:
    webhook = new_webhook(None)
    made = [Delivery(webhook=webhook, kind="test", event_id=None) for _ in range(120)]
    Delivery.objects.bulk_create(made)

    found = [row["id"] for row in rows(exported(superuser, "delivery"))]

    assert found == sorted((delivery.pk for delivery in made), reverse=True)


@pytest.mark.only_on("sqlite", "postgresql", "mariadb")
def test_all_matches_are_found_beyond_the_rows_that_one_page_examines(
    superuser: Page, new_webhook: Callable[..., Webhook], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "HORIZON", 10)
    webhook = new_webhook(None)
    rare = Delivery(webhook=webhook, kind="test", last_result="timeout")
    Delivery.objects.bulk_create([rare, *(Delivery(webhook=webhook, kind="test") for _ in range(40))])

    assert [row["id"] for row in rows(exported(superuser, "delivery", "result=timeout"))] == [rare.pk]


@pytest.mark.parametrize(
    "start", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\uff1d1", "\uff0b1", "\uff0d1", "\uff201"]
)
def test_a_cell_of_a_spreadsheet_is_no_formula(superuser: Page, webhook: Webhook, start: str) -> None:
    Webhook.objects.update(description=f'{start}"; cmd')

    answer = exported(superuser, "webhook", format="csv")

    file = answer.getvalue().decode()
    head, row = csv.reader(io.StringIO(file, newline=""))
    assert row[head.index("description")] == f"'{start}\"; cmd"
    assert file.startswith('"id","url","description",')


def test_a_file_is_downloaded_and_not_cached(superuser: Page, webhook: Webhook) -> None:
    answer = exported(superuser, "webhook", format="csv")

    assert answer["Content-Disposition"].startswith('attachment; filename="webhook-')
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    assert "no-store" in answer["Cache-Control"]


def test_structured_values_are_json_in_both_formats(superuser: Page, webhook: Webhook) -> None:
    webhook.audit("webhook.changed", {"description": [None, "ours"]})
    changes = [{"field": "description", "before": None, "after": "ours"}]

    head, row = csv.reader(io.StringIO(exported(superuser, "auditentry", format="csv").getvalue().decode()))

    assert json.loads(row[head.index("changes")]) == changes
    assert rows(exported(superuser, "auditentry", "action=webhook.changed"))[0]["changes"] == changes


@pytest.mark.parametrize("model", LISTS)
@pytest.mark.parametrize("form", ["csv", "ndjson"])
def test_a_file_is_the_same_in_every_language(superuser: Page, one_of_each: Delivery, model: str, form: str) -> None:
    webhook = one_of_each.webhook
    Webhook.objects.update(status="disabled", status_reason=ReasonText("disabled_by_owner"))
    webhook.audit("webhook.changed", {"retry_notices": [None, True], "owner_id": [None, webhook.owner_id]})
    query = "action=webhook.changed" if model == "auditentry" else ""
    files = {}

    for language in ("en", "de"):
        superuser.client.cookies[settings.LANGUAGE_COOKIE_NAME] = language
        with translation.override(language):  # streamed after the request
            files[language] = exported(superuser, model, query, format=form).getvalue()

    assert files["de"] == files["en"]


# Memory


@pytest.fixture
def many(new_webhook: Callable[..., Webhook], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(export, "ROWS_PER_PAGE", 50)
    event = emit("file.deleted", DATA, owner=None)
    webhook = new_webhook(None)
    Delivery.objects.bulk_create([Delivery(event=event, webhook=webhook) for _ in range(401)])
    return Delivery.objects.count()


def test_one_page_of_rows_is_held_and_the_queries_of_each_page_are_the_same(
    superuser: Page, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    alive: WeakSet[Any] = WeakSet()
    monkeypatch.setattr(listing, "read_page", watched := _watching(listing.read_page, alive))
    held, costs = [], []

    chunks = iter(exported(superuser, "delivery"))
    while True:
        with CaptureQueriesContext(connection) as queries:
            if next(chunks, None) is None:
                break
        gc.collect()
        held.append(len(alive))
        costs.append(len(queries))

    assert watched.pages == [50] * 8 + [many - 400]
    assert max(held) <= 100
    assert len({*costs[2:-1]}) == 1


def _watching(read: Callable[..., Any], alive: WeakSet[Any]) -> Any:
    def watching(*args: Any, **kwargs: Any) -> Any:
        page = read(*args, **kwargs)
        alive.update(page.rows)
        watching.pages.append(len(page.rows))  # type: ignore[attr-defined]
        return page

    watching.pages = []  # type: ignore[attr-defined]
    return watching


def test_an_asgi_server_gets_each_page_before_the_next_one_is_read(
    superuser: Page, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = _watching(listing.read_page, WeakSet())
    monkeypatch.setattr(listing, "read_page", watched)
    client = AsyncClient()
    client.cookies = superuser.client.cookies

    async def read() -> tuple[list[int], int]:
        answer: Any = await client.post("/admin/webhooks_app/delivery/export/", {"format": "ndjson"})
        seen, size = [], 0
        async for chunk in answer:
            seen.append(len(watched.pages))
            size += chunk.count(b"\n")
        return seen, size

    seen, size = async_to_sync(read)()

    assert size == many
    assert seen == [1, *range(1, 10)]


# Permission and audit


@pytest.mark.parametrize("model", LISTS)
def test_the_list_s_permission_is_required(staff: Callable[..., Page], one_of_each: Delivery, model: str) -> None:
    stranger = staff("berta")

    assert exported(stranger, model).status_code == 403
    assert not AuditEntry.objects.filter(action="list.exported").exists()


@pytest.mark.parametrize("model", LISTS)
def test_staff_of_an_account_get_their_own_rows_without_names(
    staff: Callable[..., Page], one_of_each: Delivery, new_webhook: Callable[..., Webhook], model: str
) -> None:
    page = staff("berta", f"view_{model}")
    own = new_webhook(page.user)
    emit("file.deleted", DATA, owner=page.user)

    found = rows(exported(page, model))
    listed = [row.pk for row in page.get(model).context["cl"].result_list]

    entry = AuditEntry.objects.get(action="list.exported")
    assert [row["id"] for row in found] == [pk for pk in listed if pk != entry.pk]
    assert (entry.owner, entry.actor) == (own.owner, page.user)
    assert not any("amina" in json.dumps(row) for row in found)
    assert not any({"requested_by", "created_by"} & row.keys() for row in found)
    assert all(row.get("account") is None for row in found)


def test_a_link_cannot_export(superuser: Page, webhook: Webhook) -> None:
    assert superuser.client.get("/admin/webhooks_app/webhook/export/", {"format": "csv"}).status_code == 405
    assert not AuditEntry.objects.exists()


def test_another_site_cannot_export(superuser: Page, webhook: Webhook) -> None:
    superuser.client.handler.enforce_csrf_checks = True

    assert exported(superuser, "webhook").status_code == 403


@pytest.mark.parametrize(
    ("query", "form"),
    [("", {"format": "xlsx"}), ("q=%00", {}), ("cursor=nonsense", {}), ("nonsense__exact=1", {})],
    ids=str,
)
def test_an_invalid_request_is_refused(superuser: Page, webhook: Webhook, query: str, form: dict[str, str]) -> None:
    assert exported(superuser, "webhook", query, **form).status_code == 400
    assert not AuditEntry.objects.exists()


def test_an_entry_names_who_exported_which_rows(superuser: Page, one_of_each: Delivery) -> None:
    answer = exported(superuser, "delivery", "state=pending&q=amina", format="csv")
    entry = AuditEntry.objects.get(action="list.exported")
    assert "rows" not in entry.changes

    answer.getvalue()

    entry.refresh_from_db()
    assert (entry.subject, entry.actor, entry.via) == ("delivery", superuser.user, "console")
    assert entry.changes["rows"] == [None, 1]
    assert {"format": [None, "csv"]}.items() <= entry.changes.items()
    assert "state=pending" in entry.changes["filters"][1]
    assert shows(superuser.get("auditentry"), "list exported")
    assert shows(superuser.get("auditentry", "change", entry.pk), "rows")


def test_an_export_that_the_client_ends_has_its_number_of_rows(superuser: Page, many: int) -> None:
    answer = exported(superuser, "delivery")
    chunks = answer._iterator  # the test client closes it as a server would
    next(chunks), next(chunks)

    chunks.close()

    assert AuditEntry.objects.get(action="list.exported").changes["rows"] == [None, 50]


def test_an_api_key_in_the_search_is_not_written_into_the_audit_log(superuser: Page) -> None:
    _, key = ApiKey.objects.make(owner=superuser.user)

    exported(superuser, "apikey", f"q={key}").getvalue()

    changes = AuditEntry.objects.get(action="list.exported").changes
    assert changes["filters"] == [None, f"q=whk_{key.split('_')[1]}"]
