"""The forecast of the operations page: what becomes due within an hour, what is held, which webhooks will be disabled.

The numbers come from the last count of the queue by the workers, so that the page does not read the queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from django.utils.translation import gettext_lazy as _

from ..maintenance.health import Rule
from ..maintenance.rollups.reading import Counters, Point, Series, Window
from ..models import MaintenanceJob, Webhook, WebhookHealth
from ..models.hold import HoldReason
from ..models.rollup import OUTCOMES
from ..pages.display import moment
from ..pages.health import disables_at
from . import charts

MINUTE = timedelta(minutes=1)
MINUTES = 60

MAX_DISABLED = 50
MAX_READ = 1000
"""Failing webhooks that are read for the count of those that will be disabled."""

READY = _("due; the next free workers send them")


class Disabling(NamedTuple):
    """A webhook that will be disabled unless a delivery succeeds."""

    webhook: Webhook
    at: Any
    given_up: int


class Disablings(NamedTuple):
    """The first of the webhooks that will be disabled, and the number of all."""

    shown: Sequence[Disabling]
    number: int
    has_more: bool
    """Whether there may be more, because ``MAX_READ`` were read."""

    @property
    def are_all_shown(self) -> bool:
        return len(self.shown) == self.number and not self.has_more


@dataclass(frozen=True, kw_only=True, slots=True)
class Forecast:
    as_of: datetime
    held: Sequence[tuple[Any, int]]
    """The reasons why deliveries wait, with their numbers, the most frequent first."""
    minutes: Sequence[tuple[datetime, int]]
    """The number of deliveries that become due in each minute with any."""
    frame: charts.Frame
    shapes: Sequence[charts.Shape]

    @property
    def due_soon(self) -> int:
        return sum(number for _minute, number in self.minutes)


def forecast(using: str) -> Forecast | None:
    """Return the forecast by the last count of the queue, or None before the first one."""
    job = MaintenanceJob.objects.using(using).filter(name="gauges").first()
    facts = job.facts if job is not None else {}
    if "by_hold" not in facts:
        return None
    as_of = datetime.fromisoformat(facts["at"])
    reasons = dict(HoldReason.choices)
    held = {reasons.get(reason, reason) or READY: number for reason, number in facts["by_hold"].items()}
    minutes = {datetime.fromisoformat(minute): number for minute, number in facts["by_minute"].items()}
    frame, shapes = _drawn(as_of, minutes)
    return Forecast(
        as_of=as_of,
        held=sorted(held.items(), key=lambda item: -item[1]),
        minutes=sorted(minutes.items()),
        frame=frame,
        shapes=shapes,
    )


def _drawn(as_of: datetime, minutes: Mapping[datetime, int]) -> tuple[charts.Frame, Sequence[charts.Shape]]:
    first = as_of.astimezone(UTC).replace(second=0, microsecond=0)
    starts = [first + number * MINUTE for number in range(MINUTES + 1)]
    points = [Point(start=start, counters=Counters({OUTCOMES[0]: minutes.get(start, 0)})) for start in starts]
    frame, shapes = charts.outcomes(Series(points=points, step_seconds=60), Window.HOUR)
    return frame, [charts.Shape("due", shape.path) for shape in shapes]


def disabled_soon(using: str) -> Disablings:
    """Return the webhooks that will be disabled unless a delivery succeeds, in the order of their times."""
    rule = Rule.configured()
    if not rule.disables:
        return Disablings([], 0, has_more=False)
    active = Webhook.objects.using(using).active()
    failing = WebhookHealth.objects.using(using).filter(failing_since__isnull=False, webhook__in=active)
    read = list(failing.order_by("failing_since").select_related("webhook")[: MAX_READ + 1])
    found = [(at, health) for health in read[:MAX_READ] if (at := disables_at(health.webhook, health)) is not None]
    shown = [Disabling(health.webhook, moment(at), health.given_up_count) for at, health in found[:MAX_DISABLED]]
    return Disablings(shown, len(found), has_more=len(read) > MAX_READ)
