"""Queries of the lists use indexes instead of reading whole tables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from demo_data.writing import Size, make_demo_data
from tests.support.plans import rows_read as read_by
from tests.support.plans import update_statistics
from tests.support.rows import emit_one, make_webhook
from webhooks_app.models import ApiKey, Delivery, Event, EventReference
from webhooks_app.models.keyset import HORIZON

from .conftest import Page

pytestmark = [pytest.mark.only_on("postgresql"), pytest.mark.usefixtures("new_tables")]

LARGE = "delivery|event|deliveryattempt"

CONSOLE = [
    "delivery/",
    "delivery/?state=cancelled",
    "delivery/?state=pending",
    "delivery/?result=tls_error",
    "delivery/?kind=test",
    "delivery/?kind=all",
    "delivery/?answer=503",
    "delivery/?answer=4xx&owner=demo-1",
    "delivery/?answer=timeout",
    "delivery/?event_type=webhook.retry",
    "delivery/?period=hour",
    "delivery/?created_after=2020-01-01T00:00&created_before=2020-01-02T00:00",
    "delivery/?q=demo&result=tls_error",
    "delivery/?owner=demo-1&created_before=2020-01-01T00:00",
    "delivery/?q=demo-1&result=tls_error",
    "event/",
    "event/?type=webhook.retry",
    "event/?q=demo-1",
    "event/?owner=demo-1&type=webhook.retry",
]
OWN_EVENTS = ["event/", f"event/?q=evt_{0:032}", "event/?q=order_0"]
API = [
    "deliveries",
    "deliveries?state=given_up&result=tls_error",
    "deliveries?kind=test",
    "deliveries?event_type=nobodys.type",
    "deliveries?created_before=2020-01-01T00:00:00Z",
    "events",
    "events?type=nobodys.type",
    "events?created_before=2020-01-01T00:00:00Z",
]


PORTAL = [
    "deliveries/",
    "deliveries/?state=given_up",
    "deliveries/?state=pending",
    "deliveries/?state=succeeded&result=tls_error",
    "deliveries/?answer=5xx&period=week",
    "deliveries/?kind=test",
    "deliveries/?event_type=file.deleted&created_before=2020-01-01T00:00",
    "events/",
    "events/?type=file.deleted",
]


def whole_tables_read(get: Any, address: str) -> list[str]:
    """Return the plans that read a whole large table."""
    with CaptureQueriesContext(connection) as captured:
        assert get(address).status_code == 200
    asked = [each["sql"] for each in captured if re.search(rf'FROM \(*"webhooks_app_({LARGE})"|LATERAL', each["sql"])]
    plans = []
    with connection.cursor() as cursor:
        for sql in asked:
            cursor.execute(f"EXPLAIN {sql}")
            plans.append("\n".join(line for (line,) in cursor.fetchall()))
    assert plans
    return [plan for plan in plans if re.search(rf"Seq Scan on webhooks_app_({LARGE})\b", plan)]


@pytest.mark.django_db
def test_no_list_reads_a_whole_table(superuser: Page) -> None:
    now = timezone.now() - timedelta(minutes=5)
    # More events than a page examines: PostgreSQL may read a smaller table at once.
    make_demo_data(Size(deliveries=60_000, due=1000, owners=3, webhooks=9, days=20), until=now)
    assert Event.objects.filter(owner__username="demo-1").count() > HORIZON
    account = get_user_model().objects.get(username="demo-1")
    EventReference.objects.create(event=Event.objects.filter(owner=account)[0], value="order_0")
    update_statistics()
    _, key = ApiKey.objects.make(owner=account)
    api, customer = Client(headers={"Authorization": f"Bearer {key}"}), Client()
    customer.force_login(account)

    found = {address: whole_tables_read(superuser.client.get, f"/admin/webhooks_app/{address}") for address in CONSOLE}
    account.is_staff = True
    account.save()
    account.user_permissions.set(Permission.objects.filter(codename="view_event"))
    found |= {f"own {each}": whole_tables_read(customer.get, f"/admin/webhooks_app/{each}") for each in OWN_EVENTS}
    found |= {address: whole_tables_read(api.get, f"/v1/{address}") for address in API}
    pages = f"/webhooks/{account.pk}/"
    found |= {address: whole_tables_read(customer.get, pages + address) for address in PORTAL}

    assert {address: plans for address, plans in found.items() if plans} == {}


@pytest.mark.django_db
def test_pending_deliveries_are_read_from_the_queue(superuser: Page) -> None:
    webhook = make_webhook(superuser.user)
    (pending,) = emit_one(superuser.user).deliveries.all()
    later = [Delivery(event=pending.event, webhook=webhook, state="succeeded") for _ in range(8000)]
    Delivery.objects.bulk_create(later, batch_size=2000)
    update_statistics()
    _, key = ApiKey.objects.make(owner=superuser.user)
    api = Client(headers={"Authorization": f"Bearer {key}"})
    lists = [f"delivery/?state=pending{more}" for more in ("", "&q=hook", "&q=root")]

    read = {address: most_rows_read(superuser.client.get, f"/admin/webhooks_app/{address}") for address in lists}
    read["api"] = most_rows_read(api.get, "/v1/deliveries?state=pending")

    assert {address: rows for address, rows in read.items() if rows > 100} == {}


def most_rows_read(get: Any, address: str) -> float:
    """Return the largest number of rows that a step of a page's queries reads."""
    with CaptureQueriesContext(connection) as captured:
        assert get(address).status_code == 200
    return max(rows_read(each["sql"]) for each in captured if "webhooks_app_delivery" in each["sql"])


def rows_read(sql: str) -> int:
    """Run a statement and return the largest number of rows that a step of its plan read or discarded."""
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}")
        (plan,) = cursor.fetchone()
    plan = json.loads(plan) if isinstance(plan, str) else plan
    return max(_sizes(plan[0]["Plan"]))


def _sizes(plan: dict[str, Any]) -> Iterator[float]:
    rows = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0) + plan.get("Rows Removed by Join Filter", 0)
    yield rows * plan["Actual Loops"]
    for part in plan.get("Plans", ()):
        yield from _sizes(part)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("page", "query"),
    [
        *(
            ("console", query)
            for query in (
                "q={event}",
                "q=order_old",
                "q=order_old+root",
                "reference=order_old",
                "reference=order_old&event_type=webhook.retry",
                "reference=order_old&event_type=nobodys.type&webhook_id={webhook}",
                "reference=order_old&state=given_up",
                "reference=order_old&state=pending",
                "reference=order_old&state=cancelled&result=timeout",
            )
        ),
        *(
            ("customers", query)
            for query in (
                "q={event}",
                "q=order_old&state=given_up",
                "q=order_old&state=pending&webhook_id={webhook}",
                "q=order_old&state=cancelled&result=timeout&kind=all",
            )
        ),
        *(
            (api, query)
            for api in ("API", "API, webhook")
            for query in (
                "event_id={event}",
                "event_id={event}&state=given_up",
                "reference=order_old&state=given_up",
                "reference=order_old&state=pending",
                "reference=order_old&event_type=nobodys.type",
            )
        ),
        ("API", "reference=order_old&webhook_id={webhook}"),
    ],
)
def test_deliveries_of_old_events_are_found_with_outdated_statistics(superuser: Page, page: str, query: str) -> None:
    webhook = make_webhook(superuser.user)
    event, *others = (emit_one(superuser.user) for _ in range(5))
    for each in (event, others[0]):
        EventReference.objects.create(event=each, value="order_old")
    new = [Delivery(event=others[1 + number % 3], webhook=webhook, state="given_up") for number in range(12_000)]
    Delivery.objects.bulk_create(new[:1200], batch_size=2000)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")  # as if each event had a fifth of the deliveries
        cursor.execute("SET LOCAL enable_seqscan = off")  # as if the table were large
    Delivery.objects.bulk_create(new[1200:], batch_size=2000)
    paths = {
        "console": reverse("admin:webhooks_app_delivery_changelist"),
        "customers": reverse("webhooks_portal:deliveries", args=(superuser.user.pk,)),
        "API": reverse("webhooks_api:delivery-list"),
        "API, webhook": reverse("webhooks_api:webhook-deliveries", args=(webhook.pk,)),
    }
    client = superuser.client
    if page.startswith("API"):
        _, key = ApiKey.objects.make(owner=superuser.user)
        client = Client(headers={"Authorization": f"Bearer {key}"})
    address = f"{paths[page]}?{query.format(event=event.pk, webhook=webhook.pk)}"

    def opened() -> None:
        assert client.get(address).status_code == 200

    assert read_by(opened) < 2000


@pytest.mark.django_db
@pytest.mark.parametrize("query", ["webhook_id={webhook}", "webhook_id={webhook}&state=given_up", "q={event}"])
def test_the_few_deliveries_of_one_of_few_webhooks_are_not_looked_for_among_all(superuser: Page, query: str) -> None:
    quiet, *busy = (make_webhook(superuser.user) for _ in range(3))
    event, *events = (emit_one(superuser.user) for _ in range(4))
    new = [Delivery(event=events[number % 3], webhook=busy[number % 2], state="given_up") for number in range(12_000)]
    Delivery.objects.bulk_create(new, batch_size=2000)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
        cursor.execute("SET LOCAL enable_seqscan = off")  # as if the table were large
    address = f"/admin/webhooks_app/delivery/?{query.format(event=event.pk, webhook=quiet.pk)}"

    assert read_by(lambda: superuser.client.get(address)) < 2000


@pytest.mark.django_db
def test_the_deliveries_of_an_event_with_many_webhooks_are_read_page_by_page(superuser: Page) -> None:
    webhook = make_webhook(superuser.user)
    event = emit_one(superuser.user)
    Delivery.objects.bulk_create([Delivery(event=event, webhook=webhook) for _ in range(12_000)], batch_size=2000)
    update_statistics()

    assert read_by(lambda: superuser.client.get(f"/admin/webhooks_app/delivery/?q={event.pk}")) < 10_000
