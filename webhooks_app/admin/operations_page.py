"""Operations page: findings of the doctor, workers, maintenance jobs, settings, and the forecast of the queue.

The forecast comes from the last count of the queue by the workers, so that the page does not read the queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from django.conf import settings as django_settings
from django.db import router
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..conf import PREFIX, SECRETS, Settings, setting_types, settings
from ..doctor import Finding, Level, examine
from ..doctor.surroundings import OURS
from ..maintenance.health import Rule
from ..maintenance.rollups.folding import KEPT, Resolution
from ..maintenance.rollups.reading import Counters, Point, Series, Window
from ..models import Delivery, MaintenanceJob, Webhook, WebhookHealth, WorkerProcess
from ..models.hold import HoldReason
from ..models.maintenance import table_sizes
from ..models.rollup import OUTCOMES
from ..pages import charts
from ..pages.display import moment
from ..pages.outlook import disables_at
from .owned import manages_all
from .sidebar import PageAdmin

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
    """The reasons why pending deliveries are not finished, with their numbers, the most frequent first."""
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
    return frame, [shape._replace(name="due") for shape in shapes]


def disabled_soon(using: str) -> Disablings:
    """Return the webhooks that will be disabled unless a delivery succeeds, in the order of their times."""
    rule = Rule.configured()
    if not rule.disables:
        return Disablings([], 0, has_more=False)
    active = Webhook.objects.using(using).active()
    failing = WebhookHealth.objects.using(using).filter(given_up_since__isnull=False, webhook__in=active)
    read = list(failing.order_by("given_up_since").select_related("webhook")[: MAX_READ + 1])
    endangered = [(at, health) for health in read[:MAX_READ] if (at := disables_at(health.webhook, health)) is not None]
    shown = [Disabling(health.webhook, moment(at), health.given_up_count) for at, health in endangered[:MAX_DISABLED]]
    return Disablings(shown, len(endangered), has_more=len(read) > MAX_READ)


MAX_WORKERS = 100
MAX_SETTING_LENGTH = 200

LEVELS = {Level.ERROR: _("Error"), Level.WARNING: _("Warning"), Level.OK: _("OK")}
"""The levels of findings, the gravest first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownFinding:
    """A finding of the doctor with its translated level."""

    finding: Finding
    level: Any
    css: str

    @property
    def is_english(self) -> bool:
        """True for messages of Django's own system checks, which are not translated."""
        return "." in self.finding.name and not self.finding.name.startswith(OURS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """A setting of this app with its current value."""

    name: str
    value: str
    is_default: bool


class OperationsPage(PageAdmin):
    """The state of the service, for users who manage all webhooks."""

    def is_open(self, request: HttpRequest) -> bool:
        return manages_all(request)

    def show(self, request: HttpRequest) -> TemplateResponse:
        using = router.db_for_write(Delivery)
        return self.page(
            request,
            "operations",
            title=gettext("Operations"),
            findings=found_by_doctor(),
            forecast=forecast(using),
            disabled_soon=disabled_soon(using),
            workers=_workers(using),
            jobs=MaintenanceJob.objects.using(using),
            retention=_retention(),
            tables=sorted(table_sizes(using), key=lambda table: -(table.size or table.rows or 0)),
            settings=settings_in_force(),
        )


def found_by_doctor() -> list[ShownFinding]:
    """Run every check of the doctor and return the findings, errors first."""
    findings = examine()
    css = {Level.ERROR: "webhooks-bad", Level.WARNING: "webhooks-open", Level.OK: "webhooks-good"}
    return [
        ShownFinding(finding=finding, level=LEVELS[finding.level], css=css[finding.level])
        for finding in sorted(findings, key=lambda finding: list(LEVELS).index(finding.level))
    ]


def settings_in_force() -> list[Setting]:
    """Return every setting with its value, or with a placeholder for a secret."""
    names = [name.removeprefix(PREFIX) for name in setting_types()]
    return [Setting(name=PREFIX + name, value=_shown(name), is_default=_is_default(name)) for name in names]


def _is_default(name: str) -> bool:
    default = django_settings.AUTH_USER_MODEL if name == "OWNER_MODEL" else getattr(Settings, name)
    return bool(getattr(settings, name) == default)


def _shown(name: str) -> str:
    value = getattr(settings, name)
    if name in SECRETS:
        return gettext("set (hidden)") if value else gettext("not set")
    text = repr(dict(value) if isinstance(value, Mapping) else value)
    return text if len(text) <= MAX_SETTING_LENGTH else f"{text[:MAX_SETTING_LENGTH]}…"


def _workers(using: str) -> QuerySet[WorkerProcess]:
    seen = WorkerProcess.objects.using(using).order_by("-seen_at")
    return seen.with_liveness()[:MAX_WORKERS]


def _retention() -> list[tuple[str, int]]:
    """Return the retention periods in days, by the kind of data."""
    return [
        (gettext("Attempts and event bodies"), settings.ATTEMPT_RETENTION_DAYS),
        (gettext("Events and deliveries"), settings.EVENT_RETENTION_DAYS),
        *settings.RETENTION_DAYS_BY_TYPE.items(),
        (gettext("Audit entries"), settings.AUDIT_RETENTION_DAYS),
        (gettext("Statistics by minute"), KEPT[Resolution.MINUTE].days),
        (gettext("Statistics by hour"), KEPT[Resolution.HOUR].days),
        (gettext("Statistics by day"), KEPT[Resolution.DAY].days),
    ]
