"""Deletion of the demo data only."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from django.db.models import QuerySet

from webhooks_app.database.sql import writing
from webhooks_app.maintenance.forgetting import delete_rows
from webhooks_app.models import Delivery, Event, Webhook
from webhooks_app.owners import owner_model, owners

from .removal import remove
from .webhooks import HOST_SUFFIX, NAME_PREFIX

DEMO_NAME = re.compile(rf"{NAME_PREFIX}\d+(@demo\.invalid)?")

AT_A_TIME = 2000
"""Events or deliveries per transaction."""


class DemoDeletion:
    """Safe to interrupt and repeat: accounts and webhooks, which identify the demo data, are deleted last."""

    def __init__(self, using: str) -> None:
        self._using = using
        self._accounts = _accounts(using)
        webhooks = Webhook.objects.using(using).filter(url__contains=f"{HOST_SUFFIX}/")
        self._webhooks = list(webhooks.values_list("pk", flat=True))
        self._deliveries = Delivery.objects.using(using).filter(webhook__in=self._webhooks)

    def count(self) -> int:
        """Return the number of deliveries to delete."""
        return self._deliveries.count()

    def run(self, progress: Callable[[int], object]) -> None:
        """Delete everything; ``progress`` is called after each transaction with its number of deliveries."""
        for ids in self._batches(Event.objects.using(self._using).filter(owner__in=self._accounts)):
            with writing(self._using, Event):
                deleted = delete_rows(self._using, Event, ids)
            progress(deleted.get(Delivery, 0))
        # Handshakes, and deliveries of other accounts' events to the platform's webhooks.
        for ids in self._batches(self._deliveries):
            with writing(self._using, Delivery):
                deleted = delete_rows(self._using, Delivery, ids)
            progress(deleted[Delivery])
        remove(self._using, self._webhooks)
        for account in self._accounts:
            account.delete()
        Webhook.objects.using(self._using).filter(pk__in=self._webhooks).delete()

    def _batches(self, rows: QuerySet[Any]) -> Iterator[Sequence[str]]:
        after = ""
        while ids := list(rows.filter(pk__gt=after).order_by("pk").values_list("pk", flat=True)[:AT_A_TIME]):
            yield ids
            after = ids[-1]


def _accounts(using: str) -> list[Any]:
    """Return the demo's owners: those with its names, except users who can log in."""
    field = owners().name_field
    named = owner_model()._default_manager.using(using).filter(**{f"{field}__startswith": NAME_PREFIX})
    return [owner for owner in named if DEMO_NAME.fullmatch(getattr(owner, field)) and not _can_log_in(owner)]


def _can_log_in(owner: Any) -> bool:
    return hasattr(owner, "has_usable_password") and bool(owner.has_usable_password())
