"""Every page reads a limited number of rows, whatever the history: the console, the customers' pages and the API."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import connection, transaction
from django.db.models import Model
from django.test import Client
from django.utils import timezone

from benchmarks.addresses import Examples, of_api, of_console, of_portal
from tests.support.plans import rows_read
from tests.support.rows import emit_one, make_problem, make_webhook
from webhooks_app.maintenance.rollups.folding import start_of
from webhooks_app.models import (
    ApiKey,
    AuditEntry,
    Delivery,
    DeliveryAttempt,
    EventReference,
    QueueEntry,
    Rollup,
    Webhook,
    WebhookHealth,
)

pytestmark = [pytest.mark.only_on("postgresql"), pytest.mark.django_db(transaction=True)]

MAX_ROWS = 10_000
MANY = 11_000
"""Rows of each kind that no page may read: deliveries in each state, attempts, entries of the queue, and others."""

WEBHOOKS = 210
"""More webhooks than a page reads at once."""

AS_IN_LARGE_TABLES = """
    SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET random_page_cost = 1"""
"""Reading a small table completely would be cheaper than looking up some of its rows."""

VALUES = 2
"""The most values with which each parameter is tried alone."""

STEP_MS = 100
"""Time between two rows of a kind."""

ID = f"(lpad(to_hex({{start}} + {STEP_MS} * n), 12, '0') || substr(md5('{{salt}}' || n), 1, 20))::uuid"


def copy(row: Model, number: int, **values: str) -> None:
    """Insert copies of a row with these SQL expressions, in which ``n`` counts from 1."""
    table, names = row._meta.db_table, [field.column for field in row._meta.concrete_fields if not field.generated]
    chosen = ", ".join(values.get(name, f'r."{name}"') for name in names)
    where = " AND ".join(f'r."{field.column}" = %s' for field in row._meta.pk_fields)
    key = [field.get_db_prep_value(getattr(row, field.attname), connection) for field in row._meta.pk_fields]
    columns = ", ".join(f'"{name}"' for name in names)
    source = f"{table} r, generate_series(1, {number}) n"
    with connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {table} ({columns}) SELECT {chosen} FROM {source} WHERE {where}", key)


def _vacuum(cursor: Any) -> None:
    """Vacuum until indexes alone suffice for new rows, which a transaction in another database can delay."""
    unseen = "SELECT sum(relpages - relallvisible) FROM pg_class WHERE relname LIKE 'webhooks_app_%%' AND relkind = 'r'"
    deadline = time.monotonic() + 60
    while True:
        cursor.execute("VACUUM (ANALYZE)")
        cursor.execute(unseen, [])
        if (pages := cursor.fetchone()[0]) < 10:
            return
        assert time.monotonic() < deadline, (
            f"{pages} pages are still to be vacuumed, of which another transaction sees rows"
        )
        time.sleep(0.5)


@pytest.fixture
def examples() -> Iterator[Examples]:
    owner, other = (get_user_model().objects.create_user(name) for name in ("busy", "other"))
    webhook, of_another = make_webhook(owner), make_webhook(other)
    start = int(timezone.now().timestamp() * 1000) - 10 * MANY * STEP_MS
    event = emit_one(owner)
    delivery = Delivery.objects.get()
    entry = QueueEntry.objects.get()
    attempt = DeliveryAttempt.objects.create(
        delivery=delivery, number=1, result="timeout", started_at=timezone.now(), url=webhook.url
    )
    WebhookHealth.objects.create(webhook=webhook, recent={"day": {"finished": 5, "given_up": 1}})
    copy(webhook, WEBHOOKS - 1, id=ID.format(start=start, salt="webhook"))
    ids = [f"'{pk[3:]}'::uuid" for pk in Webhook.objects.filter(owner=owner).values_list("pk", flat=True)]
    any_webhook = f"(ARRAY[{', '.join(ids)}])[1 + mod(n, {WEBHOOKS})]"
    copy(WebhookHealth.objects.get(), WEBHOOKS - 1, webhook_id=ID.format(start=start, salt="webhook"))
    of_event = ID.format(start=start, salt="event")
    copy(event, MANY, id=of_event)
    for place, state in enumerate(("succeeded", "given_up", "cancelled", "pending")):
        # Final deliveries of all states are of the same time, and pending ones are the newest.
        since = start + (MANY * STEP_MS if state == "pending" else place)
        pk = ID.format(start=since, salt=state)
        made = f"to_timestamp(({since} + {STEP_MS} * n) / 1000.0)"
        to = f"'{webhook.pk[3:]}'::uuid" if state == "succeeded" else any_webhook
        copy(delivery, MANY, id=pk, webhook_id=to, event_id=of_event, state=f"'{state}'", created_at=made)
        if state == "pending":
            copy(entry, MANY, delivery_id=pk, webhook_id=to, event_id=of_event)
        else:
            copy(attempt, MANY, delivery_id=pk)
    EventReference.objects.create(event=event, value="order_1")
    copy(EventReference.objects.get(event=event, value="order_1"), MANY, event_id=of_event)
    audited = AuditEntry.objects.filter(subject=webhook.pk).latest("pk")
    made = f"to_timestamp(({start} + {STEP_MS} * n) / 1000.0)"
    copy(audited, MANY, id=ID.format(start=start, salt="audit"), created_at=made, action="'webhook.changed'")
    hour = start_of("hour", timezone.now())
    rollup = Rollup.objects.create(
        webhook_id=webhook.pk, resolution="hour", start=hour, counts={"given_up": 1}, given_up=1
    )
    earlier = f"r.start - (1 + n / {WEBHOOKS}) * interval '1 hour'"
    copy(rollup, WEBHOOKS * 7 * 24, id=f"{rollup.pk} + n", webhook_id=any_webhook, start=earlier)
    problem = make_problem(webhook, code=503)
    copy(problem, MANY, id=ID.format(start=start, salt="problem"), webhook_id=any_webhook, code="n + 1000")
    ApiKey.objects.make(owner=owner)
    with connection.cursor() as cursor:
        _vacuum(cursor)
        cursor.execute(AS_IN_LARGE_TABLES)
    middle = Delivery.objects.filter(webhook=webhook, state="succeeded").order_by("pk")[MANY // 2]
    EventReference.objects.create(event_id=middle.event_id, value="order_of_one_event")
    yield Examples(
        busy=webhook,
        of_another=of_another,
        delivery=middle,
        failed=Delivery.objects.filter(state="given_up").exclude(webhook=webhook).latest("pk"),
    )
    with connection.cursor() as cursor:
        cursor.execute("RESET ALL")


def some(addresses: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield the addresses without those that differ from ``VALUES`` others only in values, except in states.

    Of several parameters, one value each is enough. Times among those of the rows are preferred.
    """
    seen: Counter[Any] = Counter()
    for kind, address in sorted(set(addresses), key=lambda each: ("2000-01" in each[1], "2100-01" in each[1], each)):
        query = parse_qsl(urlsplit(address).query)
        shape = (kind, frozenset(pair if pair[0].startswith("state") else pair[0] for pair in query))
        if seen[shape] < (VALUES if len(query) == 1 else 1) or not query:
            seen[shape] += 1
            yield address


NEVER = {
    r"/(auditentry|delivery|event|problem)/(add/|.*/delete/)$": "403: only the app writes these rows",
    r"/export/$": "405: an export is started by a form",
    r"/webhook/search/\?q=busy$": "302: the only result opens",
    r"^/webhooks/$": "302: the only account opens",
    r"^/webhooks/\d+/webhooks/wh_\w+/(enable|resume|verify|(activate|withdraw|revoke-previous)-secret)/$": (
        "302: the webhook's state does not offer the action"
    ),
}
NEVER_BY_VIEWERS = {
    r"/(apikey|replay|webhook)/(add|check-url|owners|.*/delete)/$": "403: the account's staff may only view",
}
"""Addresses that are not shown, with the status and the reason."""


def is_expected(address: str, status: int, not_shown: Mapping[str, str]) -> bool:
    return status == 200 or any(
        re.search(pattern, address) and reason.startswith(str(status)) for pattern, reason in not_shown.items()
    )


def _open(client: Client, address: str, answers: list[int]) -> None:
    answers.append(client.get(address).status_code)


def costly(
    client: Client, addresses: Iterable[tuple[str, str]], not_shown: Mapping[str, str] = NEVER
) -> dict[str, int]:
    """Return the addresses that read too many rows, with their number, and those with an error, with its status."""
    found, number = {}, 0
    for number, address in enumerate(some(addresses)):  # noqa: B007 - checked below
        answers: list[int] = []
        with transaction.atomic():
            rows = rows_read(partial(_open, client, address, answers))
        if not is_expected(address, answers[0], not_shown):
            found[address] = answers[0]
        elif rows > MAX_ROWS:
            found[address] = rows
    assert number > 20
    return found


def of_a_long_period() -> Iterator[tuple[str, str]]:
    """Yield lists in a period with all rows, which the choices of the page have at some times of the day only."""
    now = timezone.now()
    since, until = (f"{now + timedelta(days=days):%Y-%m-%dT%H:%M:%S}" for days in (-1, 1))
    for name in ("auditentry", "delivery", "event"):
        yield f"{name} in a period", f"/admin/webhooks_app/{name}/?created_after={since}&created_before={until}"


def test_no_address_reads_more_than_10_000_rows(examples: Examples, settings: Any) -> None:
    settings.WEBHOOKS_API_RATE = ""
    owner: Any = examples.busy.owner
    superuser = get_user_model().objects.create_superuser("root")
    _, key = ApiKey.objects.make(owner=owner)
    staff, customer, api = Client(), Client(), Client(headers={"Authorization": f"Bearer {key}"})
    staff.force_login(superuser)
    customer.force_login(owner)

    found = {
        "console": costly(staff, of_console(superuser, examples)),
        "customers' pages": costly(customer, of_portal(examples)),
        "API": costly(api, of_api(examples)),
    }
    owner.is_staff = True
    owner.save()
    owner.user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
    addresses = (*of_console(get_user_model().objects.get(pk=owner.pk), examples), *of_a_long_period())
    found["console of an account"] = costly(customer, addresses, NEVER | NEVER_BY_VIEWERS)

    assert [f"{number} {each}" for addresses in found.values() for each, number in addresses.items()] == []
