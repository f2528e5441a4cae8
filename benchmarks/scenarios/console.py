"""Response times and costs of pages over millions of deliveries, with all of their filters."""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import closing
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext

from webhooks_app.models import ApiKey, Delivery, Webhook, WebhookHealth

from .. import filling, rows, statements
from ..filling import large_account
from ..progress import Progress
from ..scenario import BaseScenario, Figures, Variant, at_most
from ..web_settings import SETTINGS

CONSOLE_MS, PORTAL_MS = 150, 100
"""Limits of the console and the API, and of the customers' pages."""

MAX_ROWS = 10_000
"""Most rows that a page reads."""

TIMES = 5
"""Repetitions for an address whose first response was slow."""

NOT_SHOWN = (302, 403, 404, 405)
"""Statuses of addresses that are not for this account or this method."""

EXPORTED_ROWS = 1_000_000
"""Deliveries after which the export is cancelled."""

GIVEN_UP_AFTER_MS = 5000

SHOWN = 25
"""Number of the slowest and of the most expensive addresses that are printed."""

ROWS_SQL = "SELECT coalesce(sum(seq_tup_read + idx_tup_fetch), 0) FROM pg_stat_xact_user_tables"
COSTS_SQL = """
    SELECT coalesce(sum(total_exec_time), 0), coalesce(sum(shared_blks_hit + shared_blks_read), 0)
    FROM pg_stat_statements JOIN pg_database ON pg_database.oid = dbid AND datname = current_database()"""


class Costs(NamedTuple):
    """What a response takes, except waiting for other programs."""

    cpu_ms: float = 0.0
    """CPU time of the serving process."""
    database_ms: float = 0.0
    buffers: int = 0
    rows: int = 0
    """Rows read from tables, also through indexes."""


class Opened(NamedTuple):
    """The times and costs of opening an address."""

    kind: str
    who: str
    address: str
    median_ms: float
    max_ms: float
    queries: int
    costs: Costs

    @property
    def limit_ms(self) -> int:
        return PORTAL_MS if self.kind.startswith("portal") else CONSOLE_MS

    @property
    def is_slow(self) -> bool:
        return self.median_ms > self.limit_ms

    @property
    def is_costly(self) -> bool:
        return self.costs.rows > MAX_ROWS


class Console(BaseScenario):
    name = "console"
    summary = (
        "pages of the console and of customers, and lists of the API, over millions of deliveries, with each filter"
    )
    runs = 1
    variants = (Variant(label="PostgreSQL", settings=SETTINGS, targets={"slowest_ms": at_most(CONSOLE_MS)}),)
    options: ClassVar = {"rows": (10_000_000, "final deliveries; a tenth as many are due")}
    quick: ClassVar = {"rows": 100_000}
    in_all: ClassVar = {"rows": 1_000_000}

    def measure(self, arguments: argparse.Namespace, variant: Variant, progress: Progress) -> Figures:
        filling.fill(arguments.rows, progress)
        statements.start_counting()
        opened = open_all(progress)
        exported = export(progress)
        progress.step("clearing")
        rows.clear()
        show(opened)
        if missed := [each for each in opened if each.is_slow]:
            raise RuntimeError(f"{len(missed)} of {len(opened)} addresses took longer than their limit.")
        return {**figures(opened), **exported}


def open_all(progress: Progress) -> list[Opened]:
    """Open all pages as a superuser, and as staff of the largest and of a new account; the API with their keys.

    The customers are the accounts with the most webhooks and with the most deliveries.
    """
    from ..addresses import of_api, of_console, of_portal  # noqa: PLC0415 - no other scenario has an admin

    busiest = Webhook.objects.filter(pk__in=_busiest()).exclude(owner=None).order_by("pk")
    customers = [_examples(busiest.filter(owner=large_account())), _examples(busiest.exclude(owner=large_account()))]
    examples = customers[0]
    busy = examples.busy
    superuser = get_user_model().objects.create_superuser(f"root-{time.time_ns()}")
    newcomer = get_user_model().objects.create_user(f"newcomer-{time.time_ns()}")
    opened: list[Opened] = []
    accounts: list[Any] = [superuser, _staff(busy.owner), _staff(newcomer)]
    for user in accounts:
        client = Client(raise_request_exception=False)
        client.force_login(user)
        opened += _open(user.get_username(), of_console(user, examples), client.get, progress)
    for user in accounts[1:]:
        _, key = ApiKey.objects.make(owner=user)
        client = Client(raise_request_exception=False, headers={"Authorization": f"Bearer {key}"})
        opened += _open(user.get_username(), of_api(examples), client.get, progress)
    for each in customers:
        client = Client(raise_request_exception=False)
        client.force_login(each.busy.owner)
        opened += _open(f"customer {each.owner_name}", of_portal(each), client.get, progress)
    return opened


def export(progress: Progress) -> Figures:
    """Export deliveries as CSV; return its size, CPU time, and the growth of the process after a tenth of the rows."""
    superuser = get_user_model().objects.create_superuser(f"export-{time.time_ns()}")
    client = Client()
    client.force_login(superuser)
    exported = min(EXPORTED_ROWS, Delivery.objects.count())
    progress.step("exporting", exported)
    count, size, resident, cpu = 0, 0, 0, time.process_time()
    response = client.post("/admin/webhooks_app/delivery/export/", {"format": "csv"})
    with closing(response):
        for part in response:
            count += part.count(b"\n")
            size += len(part)
            progress.done(count)
            if not resident and count >= exported / 10:
                resident = _resident_bytes()
            if count >= exported:
                break
    return {
        "export_rows": count,
        "export_mb": size / 1e6,
        "export_cpu_s": time.process_time() - cpu,
        "export_growth_mb": (_resident_bytes() - resident) / 1e6,
    }


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _busiest() -> list[str]:
    """Return the webhooks with the most final deliveries of the past week, at most ten of each account."""
    recent = WebhookHealth.objects.exclude(webhook__owner=None).values_list("webhook", "webhook__owner", "recent")
    by_owner: dict[Any, list[tuple[int, str]]] = defaultdict(list)
    for webhook_id, owner_id, figures in recent:
        by_owner[owner_id].append((figures.get("week", {}).get("finished", 0), webhook_id))
    return [webhook_id for found in by_owner.values() for _, webhook_id in sorted(found)[-10:]]


def _examples(webhooks: Any) -> Any:
    from ..addresses import Examples  # noqa: PLC0415 - no other scenario has an admin

    busy = max(webhooks, key=lambda webhook: webhook.health.recent.get("week", {}).get("finished", 0))
    log = Delivery.objects.filter(webhook=busy).order_by("-pk").select_related("event")
    others = Webhook.objects.filter(owner=busy.owner, health__failing_since__isnull=False).order_by("-pk")
    failed = Delivery.objects.filter(webhook__in=others[:1], failure="given_up").order_by("-pk").select_related("event")
    return Examples(
        busy=busy,
        of_another=Webhook.objects.exclude(owner=busy.owner).latest("pk"),
        delivery=log[log.count() // 2],
        failed=failed.first(),
    )


def _staff(user: Any) -> Any:
    """Make a user a member of staff who may view the rows of their own account."""
    user.is_staff = True
    user.save()
    codenames = Permission.objects.filter(content_type__app_label="webhooks_app", codename__startswith="view_")
    user.user_permissions.set(codenames)
    return get_user_model().objects.get(pk=user.pk)


def _open(
    who: str, addresses: Iterable[tuple[str, str]], get: Callable[[str], Any], progress: Progress
) -> list[Opened]:
    found = sorted(set(addresses))
    progress.step(f"opening the pages of {who}", len(found))
    opened = []
    limit_ms = PORTAL_MS if found[0][0].startswith("portal") else CONSOLE_MS
    with connection.cursor() as cursor:
        cursor.execute("SET pg_stat_statements.track = 'top'")
        cursor.execute(f"SET statement_timeout = {GIVEN_UP_AFTER_MS}")
    for number, (kind, address) in enumerate(found):
        progress.done(number)
        with CaptureQueriesContext(connection) as queries:
            first_ms, status = _timed(get, address)
        count = len(queries)  # before the next request clears them
        if status in NOT_SHOWN:
            continue
        times = [first_ms]
        if status != 200:
            times = [GIVEN_UP_AFTER_MS]
        elif limit_ms / 4 < first_ms < GIVEN_UP_AFTER_MS / 2:
            times = [_timed(get, address)[0] for _ in range(TIMES)]
        costs = _costs(get, address) if status == 200 else Costs()
        opened.append(Opened(kind, who, address, statistics.median(times), max(times), count, costs))
    with connection.cursor() as cursor:
        cursor.execute("RESET statement_timeout")
    return opened


def _costs(get: Callable[[str], Any], address: str) -> Costs:
    """Open an address in a transaction, in which PostgreSQL counts its rows."""
    with connection.cursor() as cursor, transaction.atomic():
        cursor.execute(ROWS_SQL)
        (before,) = cursor.fetchone()
        cursor.execute("SELECT pg_stat_statements_reset()")
        began_at = time.process_time()
        get(address)
        cpu_ms = 1000 * (time.process_time() - began_at)
        cursor.execute(ROWS_SQL)
        (read,) = cursor.fetchone()
        cursor.execute(COSTS_SQL)
        database_ms, buffers = cursor.fetchone()
    return Costs(cpu_ms, database_ms, int(buffers), int(read - before))


def _timed(get: Callable[[str], Any], address: str) -> tuple[float, int]:
    began_at = time.perf_counter()
    status = get(address).status_code
    return 1000 * (time.perf_counter() - began_at), status


def show(opened: list[Opened]) -> None:
    """Print the slowest addresses of each limit to stderr, and those that read the most rows."""
    for limit_ms in (CONSOLE_MS, PORTAL_MS):
        among = [each for each in opened if each.limit_ms == limit_ms]
        slow, costly = (sum(map(is_it, among)) for is_it in (attrgetter("is_slow"), attrgetter("is_costly")))
        print(
            f"{len(among)} addresses, {slow} above {limit_ms} ms, {costly} read more than {MAX_ROWS:,} rows:",
            file=sys.stderr,
        )
        worst = sorted(among, key=lambda each: -each.median_ms)[:SHOWN]
        worst += sorted(among, key=lambda each: -each.costs.rows)[:SHOWN]
        for each in dict.fromkeys(worst):
            marks = ("SLOW" if each.is_slow else "") + (" ROWS" if each.is_costly else "")
            print(
                f"{each.median_ms:8.1f} ms, at most {each.max_ms:8.1f}, CPU {each.costs.cpu_ms:6.1f},"
                f" database {each.costs.database_ms:6.1f}, {each.queries:3} queries, {each.costs.buffers:7,} buffers,"
                f" {each.costs.rows:7,} rows  {marks:9}  {each.who}: {each.address}",
                file=sys.stderr,
            )


def figures(opened: list[Opened]) -> Figures:
    """Return the slowest median and maximum and the most queries, over all addresses and for each kind of page."""
    kinds: dict[str, list[Opened]] = defaultdict(list)
    for each in opened:
        kinds[each.kind].append(each)
    found = {
        "slowest_ms": max(each.median_ms for each in opened),
        "slowest_of_all_ms": max(each.max_ms for each in opened),
        "median_ms": statistics.median(each.median_ms for each in opened),
        "most_queries": float(max(each.queries for each in opened)),
        "addresses": float(len(opened)),
        "most_rows": float(max(each.costs.rows for each in opened)),
        "most_buffers": float(max(each.costs.buffers for each in opened)),
        "customers_slowest_ms": max(each.median_ms for each in opened if each.limit_ms == PORTAL_MS),
    }
    for kind, pages in sorted(kinds.items()):
        key = kind.replace(" ", "_").replace("-", "_").lower()
        found[f"{key}_ms"] = max(each.median_ms for each in pages)
        found[f"{key}_queries"] = float(max(each.queries for each in pages))
    return found
