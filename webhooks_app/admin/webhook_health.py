"""Health of webhooks: columns of their list and sentences on their pages."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar

from django.contrib import admin
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from ..maintenance.rollups import reading
from ..maintenance.rollups.reading import Series, Window
from ..models import Webhook, WebhookHealth
from ..models.standing import Health, Standing, health_of, healths_of
from ..pages import charts
from ..pages.display import distance, moment
from ..pages.health import disabled_in, failing_for, last_at
from .display import shows_deliveries
from .export import Exported
from .owned import OwnedAdmin

FAILS_AFTER = timedelta(minutes=5)
"""The time of failing from which a webhook counts as failing, however few its deliveries are."""


def _last_at(webhook: Webhook) -> datetime | None:
    health = WebhookHealth.of(webhook)
    return last_at(health) if health else None


def _failing_since(webhook: Webhook) -> datetime | None:
    judged = known_health(webhook)
    return judged.since if judged.standing is Standing.FAILING else None


def known_health(webhook: Webhook) -> Health:
    """Return the judgement of a webhook, which is read once for a page, and by a list for all of its rows."""
    judged: Health | None = getattr(webhook, "judged", None)
    if judged is None:
        judged = webhook.judged = health_of(webhook)  # type: ignore[attr-defined]
    return judged


class HealthColumns(OwnedAdmin):
    """Mixin for the admin of webhooks."""

    exported: ClassVar[Exported] = {
        "course": {
            "succeeded_last_day": "last_day.total.succeeded",
            "given_up_last_day": "last_day.total.given_up",
        },
        "last_delivery": {"last_delivery_at": _last_at},
        "failing": {"failing_since": _failing_since},
    }

    def prepare(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        """Attach to each webhook its health, and its last day for users who may view deliveries."""
        judged = healths_of(rows)
        courses = reading.each(Window.DAY, [webhook.pk for webhook in rows]) if shows_deliveries(request) else {}
        for webhook in rows:
            webhook.judged, webhook.last_day = judged[webhook.pk], courses.get(webhook.pk)

    @admin.display(description=_("last 24 hours"))
    def course(self, webhook: Webhook) -> SafeString | str:
        series: Series | None = getattr(webhook, "last_day", None)
        if series is None or not series.total.finished:
            return self.get_empty_value_display()
        return charts.small(charts.sparkline(series), name=charts.numbers_of(series.total))

    @admin.display(description=_("last delivery"))
    def last_delivery(self, webhook: Webhook) -> SafeString | str:
        if (at := _last_at(webhook)) is None:
            return self.get_empty_value_display()
        ago = moment(at, distance(at))
        is_failing = known_health(webhook).standing is Standing.FAILING
        return format_html('<span class="webhooks-bad">{}</span>', ago) if is_failing else ago

    @admin.display(description=_("failing"))
    def failing(self, webhook: Webhook) -> SafeString | str:
        health = WebhookHealth.of(webhook)
        if health is None or known_health(webhook).standing is not Standing.FAILING:
            return self.get_empty_value_display()
        return format_html('<span class="webhooks-bad">{} {}</span>', failing_for(health), disabled_in(webhook, health))
