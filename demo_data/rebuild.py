"""Recalculation of roll-ups from the attempt log, after an import or for repair."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from django.db.models import Count, DurationField, ExpressionWrapper, F, Q, QuerySet, Sum
from django.db.models.functions import TruncHour, TruncMinute
from django.utils import timezone

from webhooks_app.conf import settings
from webhooks_app.maintenance.rollups.folding import (
    EVER,
    KEPT,
    Key,
    Resolution,
    Sums,
    accounts_of,
    add,
    add_to_rollups,
    changing,
    counting,
    fold,
    names_in,
    start_of,
    sums_by,
)
from webhooks_app.models import Delivery, DeliveryAttempt, Rollup, Webhook
from webhooks_app.models.rollup import (
    BUCKETS_MS,
    EVERY_WEBHOOK,
    FAILED,
    FIRST_ATTEMPT_DELAY,
    RESPONSE_TIME,
    SUM,
    bucket_names,
)
from webhooks_app.plurals import counted

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
WAITED_SUM = f"{FIRST_ATTEMPT_DELAY}{SUM}"


def rebuild(
    using: str,
    since: datetime,
    until: datetime,
    *,
    now: datetime | None = None,
    progress: Callable[[datetime], object] = lambda until: None,
) -> None:
    """Replace the roll-ups of all hours from ``since`` to ``until`` by counts of the attempt log.

    An attempt counts at its start time. Results that workers record meanwhile for these hours may count twice or not
    at all, so ``until`` should be earlier. ``progress`` is called with the end of each finished day. Raise ValueError
    for a time in the future, or before the retention of attempts.
    """
    now = now or timezone.now()
    since, until = start_of(Resolution.HOUR, since), start_of(Resolution.HOUR, until - timedelta.resolution) + HOUR
    if since < now - timedelta(days=settings.ATTEMPT_RETENTION_DAYS):
        kept = counted(settings.ATTEMPT_RETENTION_DAYS, "day")
        raise ValueError(f"Attempts are kept for {kept}: {since} is before that.")
    if until > now + HOUR:
        raise ValueError(f"{until} is in the future.")
    while fold(using).tallies:
        pass
    for start, end in _days(since, until):
        _rebuild(using, start, end, has_minutes=start >= now - KEPT[Resolution.MINUTE])
        progress(end)


def _days(since: datetime, until: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Split the time range into days."""
    first = start_of(Resolution.DAY, since)
    midnights = [first + number * DAY for number in range(1, (until - first) // DAY + 1)]
    yield from ((start, end) for start, end in pairwise([since, *midnights, until]) if start < end)


def _rebuild(using: str, start: datetime, end: datetime, *, has_minutes: bool) -> None:
    trunc = TruncMinute if has_minutes else TruncHour
    counted = _count(using, start, end, trunc("started_at", tzinfo=UTC))
    accounts = accounts_of(Webhook.objects.using(using))
    sums: defaultdict[Key, Sums] = defaultdict(dict)
    for webhook_id, moment, counters in counted:
        hour = start_of(Resolution.HOUR, moment)
        for of in counting(webhook_id, accounts):
            add(sums[of, Resolution.HOUR.value, hour], counters)
            if has_minutes:
                add(sums[of, Resolution.MINUTE.value, moment], counters)
    with changing(using):
        rows = Rollup.objects.using(using).filter(start__gte=start, start__lt=end)
        hours = rows.filter(resolution=Resolution.HOUR)
        before = _total(hours)
        rows.filter(resolution__in=(Resolution.HOUR, Resolution.MINUTE)).delete()
        add_to_rollups(using, sums)
        _renew_day(using, start_of(Resolution.DAY, start))
        added = _total(hours)
        add(added, {name: -number for name, number in before.items()})
        add_to_rollups(using, {(EVERY_WEBHOOK, Resolution.EVER.value, EVER): added})


def _renew_day(using: str, day: datetime) -> None:
    rollups = Rollup.objects.using(using)
    rollups.filter(resolution=Resolution.DAY, start=day).delete()
    hours = rollups.filter(resolution=Resolution.HOUR, start__gte=day, start__lt=day + DAY)
    by_webhook = sums_by("webhook_id", hours, names_in(hours.filter(webhook_id=EVERY_WEBHOOK)))
    add_to_rollups(
        using, {(webhook_id, Resolution.DAY.value, day): counters for webhook_id, counters in by_webhook.items()}
    )


def _total(hours: QuerySet[Rollup]) -> Sums:
    """Return the combined counters of all webhooks."""
    total: Sums = {}
    for counts in hours.filter(webhook_id=EVERY_WEBHOOK).values_list("counts", flat=True):
        add(total, counts)
    return total


def _count(using: str, start: datetime, end: datetime, moment: Any) -> Iterator[tuple[str, datetime, Sums]]:
    """Yield the counters for each webhook, moment and result."""
    attempts = DeliveryAttempt.objects.using(using).filter(
        started_at__gte=start, started_at__lt=end, delivery__kind=Delivery.Kind.EVENT
    )
    counts = _counts()
    waited = ExpressionWrapper(F("started_at") - F("delivery__created_at"), output_field=DurationField())
    by = ("delivery__webhook_id", "moment", "result")
    grouped = attempts.annotate(moment=moment, waited=waited).order_by().values_list(*by)
    annotated = grouped.annotate(**{f"number_of_{name}": count for name, count in counts.items()})
    for webhook_id, at, result, *values in annotated.iterator():
        numbers = dict(zip(counts, values, strict=True))
        waited_for = numbers.pop(WAITED_SUM)
        numbers[WAITED_SUM] = round(waited_for / timedelta(milliseconds=1)) if waited_for else 0
        numbers |= _attempts(result, first=numbers.pop("first"), later=numbers.pop("later"))
        yield webhook_id, at.astimezone(UTC), {name: number for name, number in numbers.items() if number}


def _attempts(result: str, *, first: int, later: int) -> Sums:
    """Return the counters for attempts with one result, which this version need not know."""
    if result == DeliveryAttempt.Result.SUCCEEDED:
        return {"succeeded_at_once": first, "succeeded_later": later}
    return {f"{FAILED}{result}": first + later}


def _counts() -> dict[str, Any]:
    """Return the aggregates for all counters except those by result, and for first and later attempts."""
    is_first, answered = Q(number=1), Q(response_status__isnull=False)
    filters = {
        "first": is_first,
        "later": ~is_first,
        "given_up": Q(delivery__state=Delivery.State.GIVEN_UP, number=F("delivery__attempt_count")),
        **_buckets(RESPONSE_TIME, answered, "duration_ms", lambda bound: bound),
        **_buckets(FIRST_ATTEMPT_DELAY, is_first, "waited", lambda bound: timedelta(milliseconds=bound)),
    }
    return {
        **{name: Count("pk", filter=condition) for name, condition in filters.items()},
        f"{RESPONSE_TIME}{SUM}": Sum("duration_ms", filter=answered),
        WAITED_SUM: Sum("waited", filter=is_first),
    }


def _buckets(name: str, condition: Q, field: str, value_of: Callable[[int], Any]) -> dict[str, Q]:
    bounds = [None, *map(value_of, BUCKETS_MS), None]
    buckets = {}
    for counter, (above, up_to) in zip(bucket_names(name), pairwise(bounds), strict=True):
        buckets[counter] = condition
        if above is not None:
            buckets[counter] &= Q(**{f"{field}__gt": above})
        if up_to is not None:
            buckets[counter] &= Q(**{f"{field}__lte": up_to})
    return buckets
