"""Counting the attempts in the log anew, for rows that were not delivered but loaded, and to repair."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from django.db.models import Count, DurationField, ExpressionWrapper, F, Q, QuerySet, Sum
from django.db.models.functions import TruncHour, TruncMinute
from django.utils import timezone

from ..conf import settings
from ..models import ChoreState, Delivery, DeliveryAttempt, Rollup, Tally
from ..models.rollup import BUCKETS_MS, COUNTERS, EVERY_WEBHOOK, FAILURES, histogram
from ..models.sql import writing
from ..plurals import counted
from .counting import EVER, Key, Resolution, Sums, add, start_of
from .folding import KEPT, LOCK, fold, write

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def rebuild(
    using: str,
    since: datetime,
    until: datetime,
    *,
    now: datetime | None = None,
    progress: Callable[[datetime], object] = lambda until: None,
) -> None:
    """Replace the roll-ups of all hours from that of ``since`` to that of ``until`` by what the attempts' log says.

    An attempt is counted when it was started. What workers record meanwhile may count twice in these hours, or not at
    all; let ``until`` be before what they are at. ``progress`` is called with the end of each day that is done.
    Raises ValueError for a time whose attempts retention has deleted, or that is not over.
    """
    now = now or timezone.now()
    since, until = start_of(Resolution.HOUR, since), start_of(Resolution.HOUR, until - timedelta.resolution) + HOUR
    if since < now - timedelta(days=settings.ATTEMPT_RETENTION_DAYS):
        kept = counted(settings.ATTEMPT_RETENTION_DAYS, "day")
        raise ValueError(f"Attempts are kept for {kept}: {since} is before that.")
    if until > now + HOUR:
        raise ValueError(f"{until} is not over yet.")
    while fold(using).tallies:
        pass
    for start, end in _days(since, until):
        _rebuild(using, start, end, has_minutes=start >= now - KEPT[Resolution.MINUTE])
        progress(end)


def _days(since: datetime, until: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Yield the parts of the time between that lie in one day each."""
    first = start_of(Resolution.DAY, since)
    midnights = [first + number * DAY for number in range(1, (until - first) // DAY + 1)]
    yield from ((start, end) for start, end in pairwise([since, *midnights, until]) if start < end)


def _rebuild(using: str, start: datetime, end: datetime, *, has_minutes: bool) -> None:
    trunc = TruncMinute if has_minutes else TruncHour
    counted = _count(using, start, end, trunc("started_at", tzinfo=UTC))
    sums: defaultdict[Key, Sums] = defaultdict(dict)
    for webhook_id, moment, counters in counted:
        hour = start_of(Resolution.HOUR, moment)
        for of in (webhook_id, EVERY_WEBHOOK):
            add(sums[of, Resolution.HOUR.value, hour], counters)
            if has_minutes:
                add(sums[of, Resolution.MINUTE.value, moment], counters)
    with writing(using, Tally):
        ChoreState.objects.using(using).lock(LOCK)
        rows = Rollup.objects.using(using).filter(start__gte=start, start__lt=end)
        hours = rows.filter(resolution=Resolution.HOUR)
        before = _totals(hours.filter(webhook_id=EVERY_WEBHOOK))
        rows.filter(resolution__in=(Resolution.HOUR, Resolution.MINUTE)).delete()
        write(using, sums)
        after = _totals(hours.filter(webhook_id=EVERY_WEBHOOK))
        _renew_day(using, start_of(Resolution.DAY, start))
        added = {name: after[name] - before[name] for name in COUNTERS}
        write(using, {(EVERY_WEBHOOK, Resolution.EVER.value, EVER): added})


def _renew_day(using: str, day: datetime) -> None:
    rollups = Rollup.objects.using(using)
    rollups.filter(resolution=Resolution.DAY, start=day).delete()
    hours = rollups.filter(resolution=Resolution.HOUR, start__gte=day, start__lt=day + DAY).order_by()
    by_webhook = hours.values_list("webhook_id").annotate(*(Sum(name) for name in COUNTERS))
    write(
        using,
        {
            (webhook_id, Resolution.DAY.value, day): dict(zip(COUNTERS, values, strict=True))
            for webhook_id, *values in by_webhook
        },
    )


def _totals(rows: QuerySet[Rollup]) -> Sums:
    totals = rows.aggregate(**{f"sum_of_{name}": Sum(name) for name in COUNTERS})
    return {name: totals[f"sum_of_{name}"] or 0 for name in COUNTERS}


def _count(using: str, start: datetime, end: datetime, moment: Any) -> Iterator[tuple[str, datetime, Sums]]:
    """Yield the counters of each webhook and moment."""
    attempts = DeliveryAttempt.objects.using(using).filter(
        started_at__gte=start, started_at__lt=end, delivery__kind=Delivery.Kind.EVENT
    )
    counts = _counts()
    waited = ExpressionWrapper(F("started_at") - F("delivery__created_at"), output_field=DurationField())
    grouped = attempts.annotate(moment=moment, waited=waited).order_by().values_list("delivery__webhook_id", "moment")
    annotated = grouped.annotate(**{f"number_of_{name}": count for name, count in counts.items()})
    for webhook_id, at, *values in annotated.iterator():
        numbers = dict(zip(counts, values, strict=True))
        waited_for = numbers.pop("wait_sum")
        numbers["wait_sum"] = round(waited_for / timedelta(milliseconds=1)) if waited_for else 0
        yield webhook_id, at.astimezone(UTC), {name: number for name, number in numbers.items() if number}


def _counts() -> dict[str, Any]:
    """Return an aggregate for each counter."""
    succeeded, is_first = Q(result=DeliveryAttempt.Result.SUCCEEDED), Q(number=1)
    was_last = Q(delivery__state=Delivery.State.GIVEN_UP, number=F("delivery__attempt_count"))
    answered = Q(response_status__isnull=False)
    filters = {
        "succeeded_at_once": succeeded & is_first,
        "succeeded_later": succeeded & ~is_first,
        "given_up": was_last,
        **{f"failed_{failure}": Q(result=failure) for failure in FAILURES},
        **_buckets("ms", answered, "duration_ms", lambda bound: bound),
        **_buckets("wait", is_first, "waited", lambda bound: timedelta(milliseconds=bound)),
    }
    return {
        **{name: Count("pk", filter=condition) for name, condition in filters.items()},
        "ms_sum": Sum("duration_ms", filter=answered),
        "wait_sum": Sum("waited", filter=is_first),
    }


def _buckets(name: str, condition: Q, field: str, value_of: Callable[[int], Any]) -> dict[str, Q]:
    bounds = [None, *map(value_of, BUCKETS_MS), None]
    buckets = {}
    for counter, (above, up_to) in zip(histogram(name), pairwise(bounds), strict=False):
        buckets[counter] = condition
        if above is not None:
            buckets[counter] &= Q(**{f"{field}__gt": above})
        if up_to is not None:
            buckets[counter] &= Q(**{f"{field}__lte": up_to})
    return buckets
