"""What an overview shows beside its verdict: figures with their course, webhooks, and what happened."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import QuerySet
from django.utils.safestring import SafeString
from django.utils.text import Truncator, capfirst
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..database.sql import having_ids
from ..maintenance.rollups import reading
from ..maintenance.rollups.reading import Counters, Series, Window
from ..models import AuditEntry, Delivery, Problem, QueueEntry, Replay, Webhook, WebhookHealth
from ..models.disclosure import UNREACHABLE, masks
from ..models.fields import translated
from ..models.standing import Health, Standing, healths_of
from . import charts
from .display import NO_VALUE, cause_in_words, distance, grouped, moment, percent, result_in_words
from .health import disabled_in, in_short, last_at

MAX_SHOWN_NAME = 48
MAX_ENTRIES = 50
"""Entries of the audit log that are looked through for those about deliveries."""
MAX_RETRYING = 1000
"""The most scheduled retries that are counted, and the most webhooks whose retries are."""
MAX_HAPPENINGS = 8
ABOUT = ("webhook.", "delivery.", "replay.")
"""The beginnings of the actions that concern deliveries."""
MAX_PAST_ROWS = 50
"""Problems and replays of the webhooks of a page that are looked through for the newest."""


class Tile(NamedTuple):
    """A figure with its course."""

    label: Any
    value: str
    note: str = ""
    course: SafeString | str = ""
    url: str = ""


class WebhookRow(NamedTuple):
    webhook: Webhook
    url: str
    standing: Standing
    sentence: SafeString | str
    disabled: SafeString | str
    course: SafeString
    delivered: str
    p95: str
    last_answer: SafeString | str
    settings_url: str = ""
    """The URL of the field for the URL that may be wrong."""


WRONG = (Standing.FAILING, Standing.VERIFICATION_FAILED)
"""The states in which the URL of a webhook may be wrong."""


class PastChange(NamedTuple):
    at: datetime
    text: str
    subject: str
    url: str

    @property
    def when(self) -> SafeString:
        return moment(self.at, distance(self.at))


def tiles(series: Series, *, waiting: tuple[Any, str], url: charts.ListUrl) -> list[Tile]:
    """Return the figures of a time span. ``waiting`` is the label and the value of what is not final yet."""
    total, p95 = series.total, series.total.response_times.percentile(0.95)
    steps = [point.counters for point in charts.coarse(series).points]

    def course(name: str, of: Callable[[Counters], float | None]) -> SafeString:
        return charts.small([charts.spark(name, [of(step) for step in steps])])

    return [
        Tile(
            _("Delivered"),
            grouped(total.succeeded),
            percent(total.succeeded, total.finished) if total.finished else "",
            course("succeeded_at_once", lambda counters: counters.succeeded),
        ),
        Tile(
            _("Given up"),
            grouped(total.given_up),
            course=course("given_up", lambda counters: counters.given_up),
            url=url(state="given_up") if total.given_up else "",
        ),
        Tile(*waiting, course=course("succeeded_later", _retried), url=url(state="pending")),
        Tile(
            _("Response time, 95th percentile"),
            _milliseconds(p95),
            course=course("due", lambda counters: counters.response_times.percentile(0.95)),
        ),
    ]


def _retried(counters: Counters) -> int:
    """Return the number of failed requests, without those after which the delivery was given up."""
    return max(0, sum(counters.failures.values()) - counters.given_up)


def _milliseconds(value: float | None) -> str:
    return NO_VALUE if value is None else f"{grouped(math.floor(value + 0.5))} ms"


def retrying(webhook_ids: Sequence[str], now: datetime) -> str:
    """Return the number of scheduled retries of these webhooks."""
    entries = QueueEntry.objects.order_by().filter(webhook__in=webhook_ids[:MAX_RETRYING], kind=Delivery.Kind.EVENT)
    scheduled = entries.filter(due_at__gt=now, attempt__gt=0).values("pk")
    number = scheduled[: MAX_RETRYING + 1].count() if webhook_ids else 0
    return grouped(number) if number <= MAX_RETRYING else f"{grouped(MAX_RETRYING)}+"


def webhook_rows(
    webhooks: Sequence[Webhook],
    window: Window,
    *,
    url: Callable[[str], str],
    settings_url: Callable[[str], str] | None = None,
) -> list[WebhookRow]:
    """Return the rows of a short list of webhooks, which should be loaded with their health.

    ``settings_url`` returns the URL of the field for the URL of a webhook that may be wrong.
    """
    healths = healths_of(webhooks)
    courses = reading.each(window, [webhook.pk for webhook in webhooks]) if webhooks else {}
    rows = [_row(webhook, healths[webhook.pk], courses[webhook.pk], url(webhook.pk)) for webhook in webhooks]
    if settings_url is None:
        return rows
    return [row._replace(settings_url=settings_url(row.webhook.pk)) if row.standing in WRONG else row for row in rows]


def _row(webhook: Webhook, judged: Health, series: Series, url: str) -> WebhookRow:
    health, total = WebhookHealth.of(webhook), series.total
    numbers = {"delivered": grouped(total.succeeded), "finished": grouped(total.finished)}
    return WebhookRow(
        webhook=webhook,
        url=url,
        standing=judged.standing,
        sentence=translated(webhook.status_reason) or in_short(webhook, judged),
        disabled=disabled_in(webhook, health) if health else "",
        course=charts.small(charts.sparkline(charts.coarse(series)), name=charts.numbers_of(total)),
        delivered=gettext("%(delivered)s of %(finished)s") % numbers if total.finished else NO_VALUE,
        p95=_milliseconds(total.response_times.percentile(0.95)),
        last_answer=_last_answer(health, judged) if health else "",
    )


def _last_answer(health: WebhookHealth, judged: Health) -> SafeString | str:
    """Return the last result and how long ago it was, such as ``500 · 12 s ago``; "" before the first one."""
    if (at := last_at(health)) is None:
        return ""
    result = gettext("succeeded") if at == health.last_success_at else gettext("given up")
    if judged.failed_requests:
        result = judged.cause if judged.cause.isdecimal() else cause_in_words(judged.cause)
    return moment(at, f"{result} · {distance(at)}")


def happenings(
    entries: QuerySet[AuditEntry], webhooks: Mapping[str, Webhook], *, url: Callable[[str], str]
) -> list[PastChange]:
    """Return what happened last, the newest first, as an owner may see it.

    That are the audit entries about webhooks, deliveries and replays, and the problems and finished replays of these
    webhooks. ``url`` returns the URL of the page of a row with this identifier.
    """
    changes = [*_entries(entries, webhooks, url), *_problems(webhooks, url), *_replays(webhooks, url)]
    return sorted(changes, key=lambda each: each.at, reverse=True)[:MAX_HAPPENINGS]


def _replays(webhooks: Mapping[str, Webhook], url: Callable[[str], str]) -> Iterator[PastChange]:
    ended = having_ids(Replay.objects.filter(finished_at__isnull=False), webhooks, field="webhook").order_by("-pk")
    for replay in ended[:MAX_PAST_ROWS]:
        assert replay.finished_at is not None
        text = gettext("Replay: %(state)s") % {"state": replay.get_state_display()}
        yield PastChange(replay.finished_at, text, name_of(webhooks[replay.webhook_id]), url(replay.pk))


def _entries(
    entries: QuerySet[AuditEntry], webhooks: Mapping[str, Webhook], url: Callable[[str], str]
) -> Iterator[PastChange]:
    newest = [entry for entry in entries.order_by("-pk")[:MAX_ENTRIES] if entry.action.startswith(ABOUT)]
    others = {entry.subject for entry in newest if entry.action.startswith("webhook.")} - webhooks.keys()
    named = having_ids(Webhook.objects.existing().only("url", "description"), others) if others else ()
    known = {**webhooks, **{webhook.pk: webhook for webhook in named}}
    for entry in newest[:MAX_HAPPENINGS]:
        webhook = known.get(entry.subject)
        link = url(entry.subject) if webhook or not entry.action.startswith("webhook.") else ""
        subject = name_of(webhook) if webhook else ""
        yield PastChange(entry.created_at, capfirst(entry.get_action_display()), subject, link)


def _problems(webhooks: Mapping[str, Webhook], url: Callable[[str], str]) -> Iterator[PastChange]:
    newest = having_ids(Problem.objects.all(), webhooks, field="webhook").order_by("-pk")
    for problem in newest[:MAX_PAST_ROWS]:
        webhook = webhooks[problem.webhook_id]
        is_masked = masks(problem.result, is_handshake=False, status=webhook.status)
        cause = {"cause": result_in_words(UNREACHABLE) if is_masked else str(problem.cause)}
        subject, link = name_of(webhook), url(webhook.pk)
        if problem.resolved_at is not None:
            yield PastChange(problem.resolved_at, gettext("No longer: %(cause)s") % cause, subject, link)
        yield PastChange(problem.opened_at, gettext("Requests fail: %(cause)s") % cause, subject, link)


def name_of(webhook: Webhook) -> str:
    """Return the description of a webhook, or its URL without one."""
    return Truncator(webhook.description or webhook.url).chars(MAX_SHOWN_NAME)
