"""Millions of deliveries: those of the demo data, multiplied by PostgreSQL, with everything that pages show of them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.db import connection
from django.db.models import F, Model
from django.utils import timezone

from demo_data.rebuild import rebuild
from demo_data.webhooks import NAME_PREFIX
from demo_data.writing import Size, make_demo_data, sum_up_results
from webhooks_app.conf import settings
from webhooks_app.models import (
    ApiKey,
    AuditEntry,
    Delivery,
    DeliveryAttempt,
    Event,
    EventReference,
    QueueEntry,
    QueueLane,
    Replay,
    Webhook,
    WebhookHealth,
)
from webhooks_app.models.audit import Action, Via
from webhooks_app.protocol.ids import new_id

from . import backlog
from .progress import Progress

PATTERN = 100_000
"""Largest number of final deliveries that Python makes. PostgreSQL copies them."""

ACCOUNTS, WEBHOOKS, MERGED = 75, 1536, 50
"""Accounts and webhooks of the pattern. The last ``MERGED`` accounts become one, with 1,000 webhooks."""

DAYS = 85.0
SPREAD = timedelta(minutes=5)
"""Time between a row of the pattern and its last copy. Copies are evenly distributed over it."""

SLICES = 50
"""Statements per table. Each inserts the rows of a part of the time in their order, as a service would."""

COPIED: Sequence[type[Model]] = (Event, Delivery, DeliveryAttempt, QueueEntry)
REPLACED: Sequence[type[Model]] = (*COPIED, EventReference)
IDS = ("id", "event_id", "delivery_id")
"""Columns with identifiers of copied rows."""

AUDITED_PER_WEBHOOK, KEYS, USERS = 100, 300, 10_000


def fill(count: int, progress: Progress) -> None:
    """Create ``count`` final deliveries over weeks and a tenth as many due ones, of one large account and others."""
    times = max(1, round(count / PATTERN))
    until = timezone.now() - timedelta(minutes=7)
    pattern = Size(deliveries=count // times, due=count // times // 10, owners=ACCOUNTS, webhooks=WEBHOOKS, days=DAYS)
    progress.step("making the pattern", pattern.deliveries + pattern.due)
    made = 0

    def advance(number: int) -> None:
        nonlocal made
        made += number
        progress.done(made)

    make_demo_data(pattern, until=until, chunk=20_000, progress=advance)
    _merge_accounts()
    with _without_indexes(COPIED), connection.cursor() as cursor:
        for setting in ("synchronous_commit = off", "work_mem = '256MB'", "session_replication_role = replica"):
            cursor.execute(f"SET {setting}")
        _multiply(times, progress)
        _add_references()
        cursor.execute("RESET ALL")
    backlog.analyze()
    progress.step("summing up")
    kept_since = timezone.now() - timedelta(days=settings.ATTEMPT_RETENTION_DAYS, hours=-1)
    rebuild("default", kept_since, until + SPREAD)
    WebhookHealth.objects.update(given_up_count=F("given_up_count") * times)
    sum_up_results("default")
    _add_records(times)
    backlog.analyze()


def large_account() -> Any:
    """Return the account with 1,000 webhooks."""
    return get_user_model().objects.get(username=f"{NAME_PREFIX}{ACCOUNTS}")


def _merge_accounts() -> None:
    names = [f"{NAME_PREFIX}{number}" for number in range(ACCOUNTS - MERGED + 1, ACCOUNTS)]
    merged = get_user_model().objects.filter(username__in=names)
    for model in (Webhook, Event):
        model._default_manager.filter(owner__in=merged).update(owner=large_account())
    merged.delete()


@contextmanager
def _without_indexes(models: Sequence[type[Model]]) -> Iterator[None]:
    """Drop the indexes that no constraint needs, and build them again at the end, which is faster than their upkeep."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid) FROM pg_index"
            " WHERE indrelid = ANY(%s::regclass[]) AND NOT indisunique",
            [[model._meta.db_table for model in models]],
        )
        found = cursor.fetchall()
        for name, _definition in found:
            cursor.execute(f"DROP INDEX {name}")
        yield
        cursor.execute("SET maintenance_work_mem = '1GB'")
        for _name, definition in found:
            cursor.execute(definition)


def _multiply(times: int, progress: Progress) -> None:
    """Replace the rows by copies of them, each with identifiers and times of its own."""
    progress.step("copying", len(COPIED) * SLICES)
    with connection.cursor() as cursor:
        cursor.execute("""
            CREATE FUNCTION pg_temp.copied(id uuid, copy int, ms bigint) RETURNS uuid IMMUTABLE LANGUAGE sql AS $$
                SELECT (lpad(to_hex(('x' || replace(left(id::text, 13), '-', ''))::bit(48)::bigint + ms), 12, '0')
                    || substr(md5(id::text || copy::text), 1, 20))::uuid $$""")
        for model in COPIED:
            table, pk = model._meta.db_table, "id" if model in (Event, Delivery) else "delivery_id"
            cursor.execute(
                f"CREATE TEMPORARY TABLE {table}_pattern AS"
                f" SELECT *, ntile({SLICES}) OVER (ORDER BY {pk}) AS slice FROM {table}"
            )
        cursor.execute(f"TRUNCATE {', '.join(model._meta.db_table for model in REPLACED)}")
        step_ms = int(SPREAD / timedelta(milliseconds=1)) // times
        for place, model in enumerate(COPIED):
            columns = [field for field in model._meta.concrete_fields if not field.generated]
            names = ", ".join(str(field.column) for field in columns)
            values = ", ".join(_copied(field, step_ms) for field in columns)
            for number in range(1, SLICES + 1):
                cursor.execute(
                    f"INSERT INTO {model._meta.db_table} ({names})"
                    f" SELECT {values} FROM {model._meta.db_table}_pattern AS p, generate_series(0, {times - 1}) AS n"
                    f" WHERE p.slice = {number} ORDER BY 1"
                )
                progress.done(place * SLICES + number)
            cursor.execute(f"DROP TABLE {model._meta.db_table}_pattern")


def _copied(field: Any, step_ms: int) -> str:
    """Return the value of a column in copy ``n`` of a row."""
    column = f"p.{field.column}"
    if field.column in IDS:
        return f"pg_temp.copied({column}, n, n * {step_ms})"
    if field.get_internal_type() == "DateTimeField":
        return f"{column} + n * interval '{step_ms} milliseconds'"
    if field.column == "timestamp":
        return f"extract(epoch FROM p.started_at + n * interval '{step_ms} milliseconds')::bigint"
    if field.column == "body":
        digits, copied = (
            "replace(p.id::text, '-', '')",
            f"replace(pg_temp.copied(p.id, n, n * {step_ms})::text, '-', '')",
        )
        return f"CASE p.body WHEN '' THEN '' ELSE replace(p.body, {digits}, {copied}) END"
    return column


def _add_references() -> None:
    """Add two references for each event: one of its own, and a user's."""
    table = EventReference._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(f"""
            INSERT INTO {table} (value, event_id)
            SELECT prefix || substr(md5(CASE prefix WHEN 'ppt_' THEN id::text ELSE
                (('x' || substr(md5(id::text), 1, 8))::bit(32)::bigint % {USERS})::text END), 1, 8), id
            FROM {Event._meta.db_table}, unnest(ARRAY['ppt_', 'user_']) AS prefix ORDER BY 1, 2""")


def _add_records(times: int) -> None:
    """Add the lanes of all webhooks, entries of the audit log, finished replays, and keys of the large account."""
    chances, now = random.Random(1), timezone.now()
    webhooks = list(Webhook.objects.select_related("owner"))
    QueueLane.objects.ensure([webhook.pk for webhook in webhooks])

    def moment() -> datetime:
        return now - timedelta(days=DAYS) * chances.random()

    actions = [Action.WEBHOOK_CHANGED, Action.WEBHOOK_PAUSED, Action.SECRET_ROTATED]
    entries = [
        AuditEntry(
            id=new_id("aud", at),
            action=chances.choice(actions),
            subject=webhook.pk,
            owner_id=webhook.owner_id,
            actor_name="demo",
            via=Via.CONSOLE,
            created_at=at,
        )
        for webhook in webhooks
        for at in (moment() for _ in range(max(1, AUDITED_PER_WEBHOOK * times // 100)))
    ]
    AuditEntry.objects.bulk_create(entries, batch_size=2000)
    replays = [
        Replay(
            id=new_id("rpl", at),
            webhook=webhook,
            since=at - timedelta(days=1),
            until=at,
            state=Replay.State.DONE,
            created_at=at,
            started_at=at,
            finished_at=at,
        )
        for webhook in webhooks
        for at in (moment(),)
    ]
    Replay.objects.bulk_create(replays, batch_size=500)
    keys = [
        ApiKey(owner=large_account(), name=f"Key {number}", prefix=f"{number:012x}", digest="0" * 64)
        for number in range(KEYS)
    ]
    ApiKey.objects.bulk_create(keys, batch_size=500)
