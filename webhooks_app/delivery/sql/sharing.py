"""The facts about claims that workers share, in SQL for SQLite, MariaDB and MySQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from ...models import QueueEntry, QueueLane, WorkerSession
from ...models.fields import compact_json
from .base import MAX_PARAMS, BaseSql


class SharingSql(BaseSql):
    """Statements for the numbers of claims in lanes, and for the claims of dead workers."""

    def publish(self, worker: int, numbers: Mapping[str, tuple[int, bool | None]], leased_until: datetime) -> None:
        """Store this worker's number of claims, and a changed pace, by webhook for the other workers."""
        with self.writing():
            lanes = QueueLane.objects.using(self.using).filter(pk__in=numbers).order_by("pk").select_for_update()
            changed = list(lanes)
            for lane in changed:
                lane.in_flight = lane.claims
                lane.in_flight.pop(str(worker), None)
                if number := numbers[lane.pk][0]:
                    lane.in_flight[str(worker)] = number, leased_until.timestamp()
            self._save_lanes(changed)
            for pace in (True, False):
                if found := [pk for pk, (_, is_fast) in numbers.items() if is_fast is pace]:
                    QueueLane.objects.using(self.using).filter(pk__in=found).update(is_fast=pace)

    def end_claims(self, worker: int, seen_at: datetime, now: datetime) -> int | None:
        """End the leases of a worker. Return their number, or None if its heartbeat is newer than ``seen_at``.

        A concurrent heartbeat waits for the end of the transaction, and then finds its row deleted. Lanes are locked
        before entries, as in a claim.
        """
        with self.writing():
            rows = WorkerSession.objects.using(self.using).filter(pk=worker, seen_at=seen_at)
            if not rows.delete()[0]:
                return None
            lanes = QueueLane.objects.using(self.using).filter(in_flight__has_key=str(worker))
            changed = list(lanes.order_by("pk").select_for_update())
            for lane in changed:
                del lane.in_flight[str(worker)]
            self._save_lanes(changed)
            return self._end_leases(worker, now)

    def _end_leases(self, worker: int, now: datetime) -> int:
        entries = QueueEntry.objects.using(self.using)
        held = entries.filter(worker=worker, leased_until__gt=now)
        ids = sorted(held.values_list("pk", flat=True))
        entries.claimed().lock(ids)
        pages = [ids[start : start + MAX_PARAMS // 2] for start in range(0, len(ids), MAX_PARAMS // 2)]
        return sum(held.filter(pk__in=page).update(leased_until=now) for page in pages)

    def _save_lanes(self, lanes: Sequence[QueueLane]) -> None:
        """Store the claims and the slots of locked lanes. ``bulk_update`` would take ten times as long."""
        rows = [
            (
                compact_json(lane.in_flight),
                lane.next_slot_at and self.write_time(lane.next_slot_at),
                self.write_id(lane.webhook_id),
            )
            for lane in lanes
        ]
        if rows:
            with self.connection.cursor() as cursor:
                cursor.executemany(
                    f"UPDATE {self.lanes} SET in_flight = %s, next_slot_at = %s WHERE webhook_id = %s", rows
                )
