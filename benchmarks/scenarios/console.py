"""Response times of pages over millions of deliveries, with all of their filters."""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, ClassVar, NamedTuple

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import connection
from django.db.models import Count
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from demo_data.writing import Size, make_demo_data
from webhooks_app.models import ApiKey, Delivery, Webhook

from .. import backlog, rows
from ..progress import Progress
from ..scenario import BaseScenario, Figures, Variant, at_most
from ..web_settings import SETTINGS

LIMIT_MS = 200
TIMES = 5
"""Repetitions for an address whose first response was slow."""

NOT_SHOWN = (302, 403, 404, 405)
"""Statuses of addresses that are not for this account or this method."""

GIVEN_UP_AFTER_MS = 5000
CHUNK = 50_000


class Opened(NamedTuple):
    """The costs of opening an address."""

    kind: str
    who: str
    address: str
    median_ms: float
    max_ms: float
    queries: int


class Console(BaseScenario):
    name = "console"
    summary = "pages of the console and lists of the API over millions of deliveries, with each filter"
    runs = 1
    variants = (Variant(label="PostgreSQL", settings=SETTINGS, targets={"slowest_ms": at_most(LIMIT_MS)}),)
    options: ClassVar = {"rows": (10_000_000, "final deliveries; a tenth as many are due")}
    quick: ClassVar = {"rows": 100_000}
    in_all: ClassVar = {"rows": 1_000_000}

    def measure(self, arguments: argparse.Namespace, variant: Variant, progress: Progress) -> Figures:
        make(arguments.rows, progress)
        opened = open_all(progress)
        progress.step("clearing")
        rows.clear()
        show(opened)
        if slow := [f"{each.address} ({each.who})" for each in opened if each.median_ms > LIMIT_MS]:
            raise RuntimeError(f"{len(slow)} addresses took more than {LIMIT_MS} ms, {slow[0]} among them.")
        return figures(opened)


def make(count: int, progress: Progress) -> None:
    """Create deliveries like those of a service with five large accounts over weeks."""
    due = count // 10
    progress.step(f"making {count + due:,} deliveries", count + due)
    made = 0

    def advance(number: int) -> None:
        nonlocal made
        made += number
        progress.done(made)

    size = Size(deliveries=count, due=due, owners=5, webhooks=400, days=85)
    make_demo_data(size, until=timezone.now() - timedelta(minutes=5), chunk=CHUNK, progress=advance)
    progress.step("tidying up")
    backlog.analyze()


def open_all(progress: Progress) -> list[Opened]:
    """Open all pages as a superuser, and as staff of the largest and of a new account; the API with their keys."""
    from ..addresses import Examples, of_api, of_console  # noqa: PLC0415 - no other scenario has an admin

    owned = Delivery.objects.exclude(webhook__owner=None).order_by().values_list("webhook")
    busy = Webhook.objects.get(pk=owned.annotate(number=Count("pk")).order_by("-number")[0][0])
    log = Delivery.objects.filter(webhook=busy).order_by("-pk").select_related("event")
    examples = Examples(
        busy=busy, of_another=Webhook.objects.exclude(owner=busy.owner).latest("pk"), delivery=log[log.count() // 2]
    )
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
    return opened


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
    with connection.cursor() as cursor:
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
        elif LIMIT_MS / 4 < first_ms < GIVEN_UP_AFTER_MS / 2:
            times = [_timed(get, address)[0] for _ in range(TIMES)]
        opened.append(Opened(kind, who, address, statistics.median(times), max(times), count))
    with connection.cursor() as cursor:
        cursor.execute("RESET statement_timeout")
    return opened


def _timed(get: Callable[[str], Any], address: str) -> tuple[float, int]:
    began_at = time.perf_counter()
    status = get(address).status_code
    return 1000 * (time.perf_counter() - began_at), status


def show(opened: list[Opened]) -> None:
    """Print the slowest addresses to stderr."""
    for each in sorted(opened, key=lambda each: -each.median_ms)[:40]:
        print(
            f"{each.median_ms:8.1f} ms, at most {each.max_ms:8.1f}, {each.queries:3} queries"
            f"  {each.who}: {each.address}",
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
    }
    for kind, pages in sorted(kinds.items()):
        key = kind.replace(" ", "_").replace("-", "_").lower()
        found[f"{key}_ms"] = max(each.median_ms for each in pages)
        found[f"{key}_queries"] = float(max(each.queries for each in pages))
    return found
