"""Rows of the store in the place of models: the few query sets that the code of deliveries uses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from webhooks_app.models import Delivery as DeliveryModel
from webhooks_app.models import Webhook as WebhookModel

from .store import Entry, LaneRow, Session, Store, Webhook

LOOKUPS: Mapping[str, Callable[[Any, Any], bool]] = {
    "in": lambda value, wanted: value in wanted,
    "gt": lambda value, wanted: value is not None and value > wanted,
    "isnull": lambda value, wanted: (value is None) is wanted,
    "": lambda value, wanted: value == wanted,
}


class Database:
    """What the models of one history have in common: their store, and the clock of the database."""

    def __init__(self, store: Store, now: Callable[[], datetime]) -> None:
        self.store = store
        self.now = now


class Rows:
    """A query set of rows that meet all conditions."""

    def __init__(self, database: Database, conditions: tuple[tuple[str, Callable[[Any, Any], bool], Any], ...] = ()):
        self._database = database
        self._store = database.store
        self._conditions = conditions

    def using(self, alias: str) -> Any:
        return self

    def filter(self, *upcoming: object, pk__in: Iterable[str] | None = None, **conditions: Any) -> Any:
        if pk__in is not None:
            conditions["pk__in"] = list(pk__in)
        found = []
        for name, wanted in conditions.items():
            field, _, lookup = name.partition("__")
            found.append((field, LOOKUPS[lookup], wanted))
        return type(self)(self._database, (*self._conditions, *found))

    def all(self) -> Any:
        return self

    def order_by(self, *fields: str) -> Any:
        return self

    def select_for_update(self, **options: Any) -> Any:
        return self

    def _rows(self) -> Mapping[Any, Any]:
        raise NotImplementedError

    def __iter__(self) -> Iterator[Any]:
        rows = self._rows()
        keys = [wanted for field, lookup, wanted in self._conditions if field == "pk"]
        if keys:
            wanted = keys[0] if isinstance(keys[0], list) else [keys[0]]
            chosen = [rows[pk] for pk in sorted(wanted) if pk in rows]
        else:
            chosen = list(rows.values())
        conditions = [each for each in self._conditions if each[0] != "pk"]
        return iter(
            [row for row in chosen if all(test(getattr(row, name), wanted) for name, test, wanted in conditions)]
        )

    def values_list(self, *fields: str, flat: bool = False) -> list[Any]:
        if flat:
            return [getattr(row, fields[0]) for row in self]
        return [tuple(self._value(row, name) for name in fields) for row in self]

    def _value(self, row: Any, name: str) -> Any:
        return getattr(row, name)

    def exists(self) -> bool:
        return any(True for _ in self)

    def first(self) -> Any:
        return next(iter(self), None)

    def update(self, **values: Any) -> int:
        with self._store.writing("update"):
            rows = list(self)
            for row in rows:
                known = {name: value for name, value in values.items() if hasattr(row, name)}
                self._store.change(row, **known)
        return len(rows)


class Entries(Rows):
    def _rows(self) -> Mapping[str, Entry]:
        return self._store.entries

    def values_list(self, *fields: str, flat: bool = False) -> list[Any]:
        self._store.around.before("look at entries")
        return super().values_list(*fields, flat=flat)

    def claimed(self) -> Any:
        return self.filter(claimed_at__isnull=False)

    def lock(self, ids: Iterable[str]) -> None:
        self._store.lock("entry", [pk for pk in ids if pk in self._store.entries])

    def following(self) -> set[str]:
        return self._store.following([entry.pk for entry in self])

    def promote(self, ids: Iterable[str], due_at: datetime | None = None) -> int:
        return self._store.promote(ids, due_at or self._database.now())

    def exclude(self, *, webhook__in: Iterable[str]) -> Any:
        return NextDue(self._store, webhook__in)


class NextDue:
    def __init__(self, store: Store, without: Iterable[str]) -> None:
        self._store, self._without = store, without

    def aggregate(self, **expressions: object) -> dict[str, datetime | None]:
        return dict.fromkeys(expressions, self._store.next_due_at(self._without))


class Lanes(Rows):
    def _rows(self) -> Mapping[str, LaneRow]:
        return self._store.lanes

    def ensure(self, webhook_ids: Iterable[str]) -> None:
        self._store.ensure_lanes(webhook_ids)

    def lock(self, webhook_ids: Iterable[str]) -> None:
        ids = sorted(webhook_ids)
        self._store.ensure_lanes(ids)
        self._store.lock("lane", ids)

    def lock_free(self, webhook_id: str) -> bool:
        self._store.ensure_lanes([webhook_id])
        return bool(self._store.lock_free("lane", [webhook_id]))

    def forget_pace(self, webhook: LockedWebhook) -> None:
        self._store.change(self._store.lanes[webhook.pk], is_fast=None)


class LockedWebhook:
    """A webhook whose row is locked, with the changes that follow from a handshake."""

    alias = "default"

    def __init__(self, database: Database, row: Webhook) -> None:
        self._database, self._store, self._row = database, database.store, row

    def __getattr__(self, name: str) -> Any:
        return getattr(self._row, name)

    @property
    def row(self) -> Webhook:
        return self._row

    def activate(self) -> None:
        self._store.change(self._row, status="active", pending_url="")

    def switch_url(self) -> None:
        self._store.change(self._row, status="active", url=self._row.pending_url, pending_url="")

    def keep_url(self, reason: str) -> None:
        self._store.change(self._row, pending_url="")

    def fail(self, reason: str) -> None:
        self._store.change(self._row, status="failed", pending_url="")
        self._store.cancel_stopped(self._row, 500, self._database.now())


class Webhooks(Rows):
    def _rows(self) -> Mapping[str, Webhook]:
        return self._store.webhooks

    def existing(self) -> Any:
        return self.filter(deleted_at=None)

    def _value(self, row: Any, name: str) -> Any:
        if name.startswith("lane"):
            lane = self._store.lanes.get(row.pk)
            return lane and (lane.is_fast if name == "lane__is_fast" else lane.pk)
        return super()._value(row, name)

    def free(self) -> Any:
        ids = [row.pk for row in self]
        return self.filter(pk__in=self._store.lock_free("webhook", ids))

    def select_for_update(self, **options: Any) -> Any:
        self._store.lock("webhook", [row.pk for row in self])
        return [LockedWebhook(self._database, row) for row in self]


class Deliveries(Rows):
    def _rows(self) -> Mapping[str, Any]:
        return self._store.deliveries

    def cancel(self, reason: str, *, among: Iterable[Any]) -> int:
        entries = [entry.pk for entry in among]
        return self._store.cancel([row.pk for row in self if row.pk in entries], reason, self._database.now())

    def cancel_stopped(self, webhook: Any, *, limit: int = 500) -> int:
        return self._store.cancel_stopped(getattr(webhook, "row", webhook), limit, self._database.now())


class Sessions(Rows):
    def _rows(self) -> Mapping[int, Session]:
        return self._store.sessions

    def update(self, **values: Any) -> int:
        rows = list(self)
        for row in rows:
            self._store.beat(Session(row.number, **values))
        return len(rows)

    def create(self, **values: Any) -> None:
        self._store.beat(Session(**values))

    def _raw_delete(self, using: str) -> None:
        for row in list(self):
            self._store.end_session(row.number)

    def fetch_objects(self, values: object) -> list[Session]:
        self._store.around.before("look at sessions")
        return list(self)


class Health(Rows):
    def clear(self, webhook: Any) -> None:
        """Keep no health."""


class Model:
    """A model of the code, with the rows of the store as its objects."""

    def __init__(self, rows: Rows) -> None:
        self.objects = rows
        self.Kind, self.State, self.Status = DeliveryModel.Kind, DeliveryModel.State, WebhookModel.Status


def models_of(database: Database) -> dict[str, Model]:
    """Return the models that the modules of delivery import, by name."""
    rows = {
        "QueueEntry": Entries,
        "QueueLane": Lanes,
        "Webhook": Webhooks,
        "Delivery": Deliveries,
        "WorkerSession": Sessions,
        "WebhookHealth": Health,
    }
    return {name: Model(kind(database)) for name, kind in rows.items()}
