"""Operations page: findings of the doctor, workers, maintenance jobs, retention and settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings as django_settings
from django.db import router
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..conf import PREFIX, SECRETS, Settings, setting_types, settings
from ..doctor import Finding, Level, examine
from ..maintenance.rollups.folding import KEPT, Resolution
from ..models import Delivery, MaintenanceJob, WorkerProcess
from ..models.maintenance import table_sizes
from .forecast import disabled_soon, forecast
from .owned import manages_all
from .sidebar import PageAdmin

OF_CHECKS = "webhooks_app."
"""Prefix of the names of findings by system checks."""

MAX_WORKERS = 100
MAX_SHOWN = 200

GRAVEST_FIRST = (Level.ERROR, Level.WARNING, Level.OK)
LEVELS = {Level.ERROR: _("Error"), Level.WARNING: _("Warning"), Level.OK: _("OK")}


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """A finding of the doctor with its translated level."""

    finding: Finding
    level: Any
    css: str

    @property
    def is_english(self) -> bool:
        """True for messages of system checks, which are not translated."""
        return self.finding.name.startswith(OF_CHECKS)


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


def found_by_doctor() -> list[Found]:
    """Run every check of the doctor and return the findings, errors first."""
    findings = examine()
    css = {Level.ERROR: "webhooks-bad", Level.WARNING: "webhooks-open", Level.OK: "webhooks-good"}
    return [
        Found(finding=finding, level=LEVELS[finding.level], css=css[finding.level])
        for finding in sorted(findings, key=lambda finding: GRAVEST_FIRST.index(finding.level))
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
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


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
