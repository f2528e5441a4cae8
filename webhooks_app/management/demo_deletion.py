"""Taking the demo data away again, and nothing else: its accounts, their events and webhooks, and what was counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import F, QuerySet, Sum

from ..models import ChoreState, Delivery, DeliveryAttempt, Event, Rollup, Tally, Webhook
from ..models.rollup import COUNTERS, EVERY_WEBHOOK
from ..models.sql import writing
from ..rollups.folding import LOCK, fold
from .demo_cast import HOST_SUFFIX, NAME_PREFIX

AT_A_TIME = 2000
"""Events or deliveries to a transaction."""


class DemoDeletion:
    """May be interrupted and begun anew: the accounts and webhooks, which tell what is the demo's, go last."""

    def __init__(self, using: str) -> None:
        self._using = using
        self._accounts = _accounts(using)
        webhooks = Webhook.objects.using(using).filter(url__contains=f"{HOST_SUFFIX}/")
        self._webhooks = list(webhooks.values_list("pk", flat=True))
        self._deliveries = Delivery.objects.using(using).filter(webhook__in=self._webhooks)

    def count(self) -> int:
        """Return how many deliveries there are to delete."""
        return self._deliveries.count()

    def run(self, progress: Callable[[int], None]) -> None:
        """Delete it; ``progress`` is called after each transaction with its number of deliveries."""
        for ids in self._batches(Event.objects.using(self._using).filter(owner__in=self._accounts)):
            with writing(self._using, Event):
                deliveries = Delivery.objects.using(self._using).filter(event__in=ids)
                deleted = self._delete_deliveries(list(deliveries.values_list("pk", flat=True)))
                _raw_delete(Event.objects.using(self._using).filter(pk__in=ids))
            progress(deleted)
        # Handshakes, and what others' events made for the platform's webhooks.
        for ids in self._batches(self._deliveries):
            with writing(self._using, Delivery):
                deleted = self._delete_deliveries(ids)
            progress(deleted)
        self._uncount()
        for account in self._accounts:
            account.delete()
        Webhook.objects.using(self._using).filter(pk__in=self._webhooks).delete()

    def _batches(self, rows: QuerySet[Any]) -> Iterator[Sequence[str]]:
        after = ""
        while ids := list(rows.filter(pk__gt=after).order_by("pk").values_list("pk", flat=True)[:AT_A_TIME]):
            yield ids
            after = ids[-1]

    def _delete_deliveries(self, ids: Sequence[str]) -> int:
        deliveries = Delivery.objects.using(self._using)
        _raw_delete(DeliveryAttempt.objects.using(self._using).filter(delivery__in=ids))
        deliveries.filter(redelivery_of__in=ids).update(redelivery_of=None)
        return _raw_delete(deliveries.filter(pk__in=ids))

    def _uncount(self) -> None:
        """Take what the webhooks had from the roll-ups of all together."""
        while fold(self._using).tallies:
            pass
        rollups = Rollup.objects.using(self._using).order_by()
        demo, totals = rollups.filter(webhook_id__in=self._webhooks), rollups.filter(webhook_id=EVERY_WEBHOOK)
        sums = {f"sum_of_{name}": Sum(name) for name in COUNTERS}
        ChoreState.objects.using(self._using).ensure([LOCK])
        with writing(self._using, Tally):
            ChoreState.objects.using(self._using).lock(LOCK)
            for resolution, start, *numbers in demo.values_list("resolution", "start").annotate(**sums):
                _subtract(totals.filter(resolution=resolution, start=start), numbers)
            ever = demo.filter(resolution=Rollup.Resolution.DAY).aggregate(**sums)
            _subtract(totals.filter(resolution=Rollup.Resolution.EVER), [ever[name] or 0 for name in sums])
            demo.delete()


def _accounts(using: str) -> list[Any]:
    """Return the accounts of the demo: by their name, and nobody can log in to them."""
    accounts: Any = get_user_model()
    named = accounts._default_manager.using(using).filter(**{f"{accounts.USERNAME_FIELD}__startswith": NAME_PREFIX})
    return [account for account in named if not account.has_usable_password()]


def _subtract(rollups: QuerySet[Rollup], numbers: Sequence[int]) -> None:
    changed = {name: F(name) - number for name, number in zip(COUNTERS, numbers, strict=True) if number}
    if changed:
        rollups.update(**changed)


def _raw_delete(rows: Any) -> int:
    return int(rows._raw_delete(rows.db))  # noqa: SLF001 - children go first, so nobody need look for them
