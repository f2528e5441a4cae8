"""Insertion of the demo data, with the roll-ups, health records and problems that workers would have written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connections, models, router, transaction
from django.db.models import Count, F, Max, Min, Q
from django.db.models.functions import TruncHour
from django.utils import timezone

from webhooks_app.conf import settings
from webhooks_app.database.dialects import dialect_of
from webhooks_app.maintenance.jobs import sum_up_recent
from webhooks_app.maintenance.problems import note_results
from webhooks_app.maintenance.rollups.folding import TalliedWebhook
from webhooks_app.models import (
    Delivery,
    DeliveryAttempt,
    Event,
    EventReference,
    MaintenanceJob,
    Problem,
    QueueEntry,
    WebhookHealth,
)
from webhooks_app.models.rollup import FAILED

from .history import History, Rows
from .rebuild import rebuild
from .webhooks import Target, make_owners, make_webhooks


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """Numbers of rows: ``deliveries`` are final and ``due`` are pending, over the past ``days``."""

    deliveries: int = 10_000
    due: int = 0
    owners: int = 6
    webhooks: int = 24
    days: float = 14.0
    seed: int = 1


def make_demo_data(
    size: Size, *, until: datetime, chunk: int = 5000, progress: Callable[[int], object] = lambda count: None
) -> None:
    """Create accounts, webhooks and deliveries until ``until``, with about ``chunk`` deliveries per transaction.

    ``progress`` is called after each transaction with its number of deliveries.
    """
    using = router.db_for_write(Delivery)
    since, kept_since = until - timedelta(days=size.days), _kept_since()
    owners = make_owners(size.owners)
    targets = make_webhooks(owners, size.webhooks, seed=size.seed, since=since, until=until)
    history = History(targets, owners, since=since, until=until, kept_since=kept_since, seed=size.seed)
    for rows in history.batches(size.deliveries, size.due, chunk):
        with transaction.atomic(using=using):
            _insert(using, rows)
        progress(len(rows.deliveries))
    _analyze(using)
    # Again: attempts past their retention in the meantime cannot be counted.
    if (first := max(since, _kept_since())) < until:
        rebuild(using, first, until)
    _insert_health(using, targets)
    _insert_problems(using, targets)
    sum_up_results(using)


def sum_up_results(using: str) -> None:
    """Sum up the recent results of all webhooks at once, instead of some at each run of the job."""
    facts: dict[str, Any] = {}
    while not facts or facts["after"]:
        sum_up_recent(using, timezone.now(), facts)
    MaintenanceJob.objects.using(using).ensure(["recent"])
    MaintenanceJob.objects.using(using).filter(name="recent").update(facts=facts)


def _kept_since() -> datetime:
    """Return the time from which attempts stay within retention for at least another hour."""
    return timezone.now() - timedelta(days=settings.ATTEMPT_RETENTION_DAYS, hours=-1)


def _insert(using: str, rows: Rows) -> None:
    pending = [delivery for delivery in rows.deliveries if delivery.state == Delivery.State.PENDING]
    final = [delivery for delivery in rows.deliveries if delivery.state != Delivery.State.PENDING]
    _insert_all(using, Event, rows.events)
    _insert_all(using, EventReference, rows.references)
    _insert_all(using, Delivery, final)
    _queue(using, pending)
    _insert_all(using, DeliveryAttempt, rows.attempts)


def _queue(using: str, deliveries: Sequence[Delivery]) -> None:
    """Insert pending deliveries with their queue entries, due at their creation times."""
    _insert_all(using, Delivery, deliveries)
    _insert_all(using, QueueEntry, [QueueEntry.of(delivery, delivery.created_at) for delivery in deliveries])


def _insert_all(using: str, model: type[models.Model], rows: Iterable[models.Model]) -> None:
    """Insert rows by COPY or executemany(), several times as fast as bulk_create()."""
    connection = connections[using]
    fields = [field for field in model._meta.concrete_fields if not field.generated]
    quote = connection.ops.quote_name
    table, columns = quote(model._meta.db_table), ", ".join(quote(str(field.column)) for field in fields)
    values = [[field.get_db_prep_save(getattr(row, field.attname), connection) for field in fields] for row in rows]
    with connection.cursor() as cursor:
        if not hasattr(cursor, "copy"):  # only psycopg 3 has it
            cursor.executemany(f"INSERT INTO {table} ({columns}) VALUES ({', '.join(['%s'] * len(fields))})", values)
            return
        with cursor.copy(f"COPY {table} ({columns}) FROM STDIN") as copy:
            for each in values:
                copy.write_row(each)


def _analyze(using: str) -> None:
    """Update the statistics, which otherwise describe empty tables for a while."""
    tables = [model._meta.db_table for model in (Event, EventReference, Delivery, DeliveryAttempt, QueueEntry)]
    dialect_of(using).analyze(connections[using], tables)


def _insert_health(using: str, targets: Iterable[Target]) -> None:
    health = [_health(using, target.webhook.pk) for target in targets]
    WebhookHealth.objects.using(using).bulk_create(health, batch_size=500)


def _health(using: str, webhook_id: str) -> WebhookHealth:
    deliveries = Delivery.objects.using(using).filter(webhook=webhook_id).order_by()
    succeeded = deliveries.filter(state=Delivery.State.SUCCEEDED).aggregate(last_success_at=Max("finished_at"))
    given_up = deliveries.filter(state=Delivery.State.GIVEN_UP)
    if succeeded["last_success_at"]:
        given_up = given_up.filter(finished_at__gt=succeeded["last_success_at"])
    failed = given_up.aggregate(
        last_given_up_at=Max("finished_at"), failing_since=Min("finished_at"), given_up_count=Count("pk")
    )
    return WebhookHealth(webhook_id=webhook_id, **succeeded, **failed)


def _insert_problems(using: str, targets: Iterable[Target]) -> None:
    """Insert the problems that maintenance would have made of these results."""
    with transaction.atomic(using=using):
        note_results(using, _results_by_hour(using, [target.webhook.pk for target in targets]))
    Problem.objects.using(using).resolve(timezone.now())


def _results_by_hour(using: str, webhook_ids: Sequence[str]) -> Iterator[TalliedWebhook]:
    """Yield the equal results of each webhook and hour together, in the order of the last ones."""
    is_last = Q(delivery__state=Delivery.State.GIVEN_UP, number=F("delivery__attempt_count"))
    attempts = DeliveryAttempt.objects.using(using).filter(
        delivery__webhook__in=webhook_ids, delivery__kind=Delivery.Kind.EVENT
    )
    counted = (
        attempts.annotate(hour=TruncHour("started_at", tzinfo=UTC))
        .values_list("delivery__webhook_id", "hour", "result", "response_status")
        .annotate(
            count=Count("pk"),
            last=Max("started_at"),
            given_up=Count("pk", filter=is_last),
            missed_from=Min("delivery__created_at", filter=is_last),
        )
        .order_by("last")
    )
    for webhook_id, _hour, result, status, count, last, given_up, missed_from in counted.iterator():
        has_failed = result != DeliveryAttempt.Result.SUCCEEDED
        counters = {f"{FAILED}{result}": count, "given_up": given_up} if has_failed else {"succeeded_at_once": count}
        codes = {status: count} if result == DeliveryAttempt.Result.HTTP_STATUS else {}
        yield TalliedWebhook(webhook_id, last, counters, given_up, missed_from, codes)
