"""Folding of tallies into roll-ups. Each tally counts once, even after crashes and with concurrent folds."""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from django.db import transaction
from django.db.models import BigIntegerField, QuerySet, Sum
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast

from ...database.sql import kind_of, upsert, writing
from ...models import MaintenanceJob, Rollup, Tally, Webhook
from ...models.rollup import CODE, EVERY_WEBHOOK, FIRST_WEBHOOK, MISSED_FROM, REFUSED, SINCE_SUCCESS, id_of_account

logger = logging.getLogger("webhooks_app.maintenance")

Resolution = Rollup.Resolution

EVER = datetime(2000, 1, 1, tzinfo=UTC)
"""The ``start`` of the roll-up over all time."""

Key: TypeAlias = tuple[str, str, datetime]
"""The id of a webhook or of a sum over webhooks, the resolution, and the start of the span."""

Sums: TypeAlias = dict[str, int]
"""Numbers by counter name, without zeros."""

LOCK = "fold"
"""The job whose row serves as the lock."""

ROWS_AT_A_TIME = 500

KEY = ("webhook_id", "resolution", "start")

COUNTED = ("counts", "given_up")

TALLIES_AT_A_TIME = 100
"""Tallies per transaction: few, so that a sending thread does not wait long."""

GIVEN_UP_AT_A_TIME = 500
"""Given-up deliveries reported in one transaction. A single tally may exceed it."""

KEPT = {
    Resolution.MINUTE: timedelta(days=2),
    Resolution.HOUR: timedelta(days=90),
    Resolution.DAY: timedelta(days=400),
}

DELETED_AT_A_TIME = 1000


class TalliedWebhook(NamedTuple):
    """The counts of one batch for one webhook."""

    webhook_id: str
    recorded_at: datetime
    counters: Mapping[str, int]
    given_up_since_success: int
    """Number of deliveries given up after the last success, or of all given up without a success."""
    missed_from: datetime | None = None
    """The creation time of the oldest event that was given up or cancelled."""
    codes: Mapping[int, int] = MappingProxyType({})
    """Number of failed attempts by the status of their answer. Older versions of the app do not count them."""
    refused: Mapping[str, int] = MappingProxyType({})
    """Number of attempts that failed after the last success, or of all without one, by status or else by result."""

    @property
    def has_success(self) -> bool:
        return bool(self.counters.get("succeeded_at_once") or self.counters.get("succeeded_later"))


def start_of(resolution: str, moment: datetime) -> datetime:
    """Return the start of the minute, hour or day (UTC) that contains ``moment``."""
    moment = moment.astimezone(UTC)
    if resolution == Resolution.EVER:
        return EVER
    if resolution == Resolution.DAY:
        return moment.replace(hour=0, minute=0, second=0, microsecond=0)
    if resolution == Resolution.HOUR:
        return moment.replace(minute=0, second=0, microsecond=0)
    return moment.replace(second=0, microsecond=0)


def read(tally: Tally) -> tuple[list[TalliedWebhook], list[str]]:
    """Return the counts of a tally by webhook, and the ids of the given-up deliveries; nothing of a damaged one."""
    try:
        return _read(tally)
    except Exception as error:  # noqa: BLE001 - whatever the text contains must not stop the other tallies
        logger.error("Tally %s is damaged, and its counts are lost: %s.", tally.pk, kind_of(error))  # noqa: TRY400
        return [], []


def _read(tally: Tally) -> tuple[list[TalliedWebhook], list[str]]:
    counts: dict[str, Any] = json.loads(tally.counts)
    webhooks = [
        TalliedWebhook(
            f"wh_{digits}",
            tally.recorded_at,
            given_up_since_success=counters.pop(SINCE_SUCCESS, 0),
            missed_from=_moment(counters.pop(MISSED_FROM, None)),
            codes={int(status): number for status, number in _taken(counters, CODE).items()},
            refused=_taken(counters, REFUSED),
            counters=counters,
        )
        for digits, counters in counts["webhooks"].items()
    ]
    for webhook in webhooks:
        # raises unless they are numbers
        numbers = (*webhook.counters.values(), *webhook.codes.values(), *webhook.refused.values())
        sum(numbers, webhook.given_up_since_success)
    return webhooks, [f"dlv_{digits}" for digits in counts["given_up"]]


def _taken(counters: dict[str, int], prefix: str) -> Sums:
    """Remove the counters with this prefix, and return them without it."""
    names = [name for name in counters if name.startswith(prefix)]
    return {name.removeprefix(prefix): counters.pop(name) for name in names}


def _moment(milliseconds: int | None) -> datetime | None:
    return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, UTC)


def accounts_of(webhooks: QuerySet[Webhook]) -> dict[str, str]:
    """Return the id of the account's roll-ups by webhook. Those of the platform have none."""
    rows = webhooks.filter(owner__isnull=False).order_by().values_list("pk", "owner_id")
    return {webhook_id: id_of_account(owner_id) for webhook_id, owner_id in rows}


def counting(webhook_id: str, accounts: Mapping[str, str]) -> set[str]:
    """Return the ids of all roll-ups that count the results of a webhook."""
    return {webhook_id, accounts.get(webhook_id, EVERY_WEBHOOK), EVERY_WEBHOOK}


def add_up(entries: Iterable[TalliedWebhook], accounts: Mapping[str, str]) -> dict[Key, Sums]:
    """Return the numbers to add to each roll-up."""
    by_minute: defaultdict[tuple[str, datetime], Sums] = defaultdict(dict)
    for recorded_at, of_one_moment in groupby(entries, lambda entry: entry.recorded_at):
        minute = start_of(Resolution.MINUTE, recorded_at)
        for entry in of_one_moment:
            if entry.counters:
                add(by_minute[entry.webhook_id, minute], entry.counters)
    sums: defaultdict[Key, Sums] = defaultdict(dict)
    for (webhook_id, minute), counters in by_minute.items():
        for resolution in (Resolution.MINUTE.value, Resolution.HOUR.value, Resolution.DAY.value):
            start = start_of(resolution, minute)
            for counted_id in counting(webhook_id, accounts):
                add(sums[counted_id, resolution, start], counters)
        add(sums[EVERY_WEBHOOK, Resolution.EVER.value, EVER], counters)
    return sums


def add(sums: Sums, counters: Mapping[str, int]) -> None:
    for name, number in counters.items():
        sums[name] = sums.get(name, 0) + number


@contextmanager
def changing(using: str) -> Generator[None]:
    """Open a transaction that may change roll-ups. Only one runs at a time, because counters are added up in Python."""
    MaintenanceJob.objects.using(using).ensure([LOCK])
    with writing(using, Tally):
        MaintenanceJob.objects.using(using).lock(LOCK)
        yield


def add_to_rollups(using: str, sums: Mapping[Key, Sums]) -> None:
    """Add to the counters of roll-ups, and insert missing roll-ups. Must be called within ``changing``.

    Stored counters that are not in ``sums`` are preserved, even those unknown to this version of the app.
    """
    keys = sorted(sums)
    for first in range(0, len(keys), ROWS_AT_A_TIME):
        some = keys[first : first + ROWS_AT_A_TIME]
        stored = _stored(using, some)
        rows = [_row(key, _total(stored.get(key, {}), sums[key])) for key in some]
        upsert(Rollup.objects.using(using), rows, unique=KEY, update=COUNTED)


def _stored(using: str, keys: Sequence[Key]) -> dict[Key, Sums]:
    webhook_ids, resolutions, starts = map(set, zip(*keys, strict=True))
    rows = Rollup.objects.using(using).filter(webhook_id__in=webhook_ids, resolution__in=resolutions, start__in=starts)
    return {(*key,): counts for *key, counts in rows.order_by().values_list(*KEY, "counts")}


def _total(stored: Sums, added: Sums) -> Sums:
    total = dict(stored)
    add(total, added)
    return {name: number for name, number in total.items() if number}


def _row(key: Key, counts: Sums) -> Rollup:
    given_up = counts.get("given_up", 0) if key[0] > FIRST_WEBHOOK else 0
    return Rollup(**dict(zip(KEY, key, strict=True)), counts=counts, given_up=given_up)


def names_in(totals: QuerySet[Rollup]) -> list[str]:
    """Return the names of all counters in these roll-ups.

    For many webhooks, pass the totals over all webhooks: few rows that contain every counter.
    """
    return sorted({name for counts in totals.order_by().values_list("counts", flat=True) for name in counts})


def sums_by(field: str, rows: QuerySet[Rollup], names: Collection[str]) -> dict[Any, Sums]:
    """Return the sums of these counters by the value of a field, calculated by the database."""
    # The outer cast is required for PostgreSQL and MariaDB, where a sum of integers is a decimal.
    numbers = [Cast(KeyTextTransform(name, "counts"), BigIntegerField()) for name in names]
    sums = {f"sum_{place}": Cast(Sum(number), BigIntegerField()) for place, number in enumerate(numbers)}
    found = rows.order_by().values_list(field).annotate(**sums)
    return {value: {name: sum_ for name, sum_ in zip(names, values, strict=True) if sum_} for value, *values in found}


@dataclass(frozen=True, kw_only=True, slots=True)
class Folded:
    """The result of one fold, oldest first."""

    tallies: int
    webhooks: Sequence[TalliedWebhook] = ()
    given_up: Sequence[str] = ()
    """The ids of the given-up deliveries."""
    has_more: bool = False
    """Whether more tallies remain."""


def fold(
    using: str, *, limit: int = TALLIES_AT_A_TIME, also: Callable[[Folded], object] = lambda folded: None
) -> Folded:
    """Add the oldest tallies to the roll-ups and delete them in one transaction. The limit is lower for many failures.

    If a concurrent fold has already taken one of them, nothing is folded. ``also`` is called in the transaction with
    the result, for effects that must occur exactly once.
    """
    # Slow computation happens before the transaction and its lock.
    tallies, folded = _take(Tally.objects.using(using).order_by("pk")[: limit + 1].readable(), limit)
    if not tallies:
        return folded
    counted = Webhook.objects.using(using).filter(pk__in={entry.webhook_id for entry in folded.webhooks})
    sums = add_up(folded.webhooks, accounts_of(counted))
    with changing(using):
        deleted, _ = Tally.objects.using(using).filter(pk__in=[tally.pk for tally in tallies]).delete()
        if deleted < len(tallies):
            transaction.set_rollback(True, using=using)
            return Folded(tallies=0)
        add_to_rollups(using, sums)
        also(folded)
    return folded


def _take(tallies: Sequence[Tally], limit: int) -> tuple[list[Tally], Folded]:
    """Return the first tallies within the limits, and their combined content."""
    taken: list[Tally] = []
    webhooks: list[TalliedWebhook] = []
    given_up: list[str] = []
    for tally in tallies[:limit]:
        of_webhooks, ids = read(tally)
        if given_up and len(given_up) + len(ids) > GIVEN_UP_AT_A_TIME:
            break
        taken.append(tally)
        webhooks += of_webhooks
        given_up += ids
    has_more = len(taken) < len(tallies)
    return taken, Folded(tallies=len(taken), webhooks=webhooks, given_up=given_up, has_more=has_more)


def forget_old(using: str, now: datetime) -> int:
    """Delete a limited number of roll-ups at the end of their retention. Return their number."""
    deleted = 0
    for resolution, age in KEPT.items():
        rows = Rollup.objects.using(using).filter(resolution=resolution, start__lt=now - age)
        ids = list(rows.order_by("start").values_list("pk", flat=True)[:DELETED_AT_A_TIME])
        if ids:
            deleted += Rollup.objects.using(using).filter(pk__in=ids).delete()[0]
    return deleted
