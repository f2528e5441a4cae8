"""Receivers: each webhook in one row with its recent results, sorted by any of them; by default the worst first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import Any, NamedTuple

from django import forms
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import PAGE_VAR
from django.db.models import QuerySet
from django.http import HttpRequest, QueryDict
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..database.sql import having_ids
from ..maintenance.rollups.periods import MOST_DAYS, Period
from ..maintenance.rollups.reading import Window
from ..maintenance.rollups.recent import QUEUED, SPANS
from ..models import MaintenanceJob, QueueEntry, Webhook, WebhookHealth
from ..models.fields import translated
from ..models.standing import Health, Standing, healths_of
from ..pages.charts import windows
from ..pages.display import moment, percent
from ..pages.filters import IntervalForm
from ..pages.health import failing_for
from ..pages.listing import found_owners
from ..reasons import code_of
from .display import shows_deliveries
from .export import ROWS_PER_PAGE, ExportedRows, ExportingAdmin, account_of, shown_account_of
from .owned import knows_owners, own_ids, own_rows
from .receiver_order import ASCENDING, COLUMNS, WORST, ReceiverOrder
from .sidebar import PageAdmin, views_webhooks

WEBHOOKS_PER_PAGE = 50
MAX_PAGE = 1000

MAX_QUEUED = 2000
"""The most queued deliveries that a page counts. With more, it shows the numbers that a worker has summed up."""

INTERVAL = ("seen_after", "seen_before")


class ReceiversForm(IntervalForm):
    state = forms.ChoiceField(
        label=_("State"),
        required=False,
        choices=[("", _("All")), *Standing.choices],
    )
    owner = forms.CharField(label=_("Name of the account"), required=False, max_length=254)

    field_order = ("state", *INTERVAL, "owner")
    longest = timedelta(days=MOST_DAYS)


class Heading(NamedTuple):
    title: Any
    url: str
    sorted: str
    """``ascending`` or ``descending`` if the list is sorted by this column, otherwise ""."""
    is_number: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ReceiverRow:
    webhook: Webhook
    period: Period
    state: Standing
    requests: int
    failed: int
    finished: int
    given_up: int
    p50_ms: int | None
    p95_ms: int | None
    queued: int
    failing: WebhookHealth | None
    """Set if the webhook is failing."""

    @property
    def owner(self) -> str | None:
        return account_of(self.webhook)

    @property
    def shown_owner(self) -> str:
        return shown_account_of(self.webhook)

    @property
    def reason(self) -> str:
        return translated(self.webhook.status_reason)

    @property
    def error_rate(self) -> str:
        """The share of failed requests in percent; "" without requests."""
        return percent(self.failed, self.requests) if self.requests else ""

    @property
    def time_failing(self) -> SafeString | str:
        return failing_for(self.failing) if self.failing else ""


EXPORTED: Mapping[str, Any] = {
    "id": "webhook.pk",
    "url": "webhook.url",
    "account": "owner",
    "state": "state.value",
    "status_reason": "webhook.status_reason",
    "status_reason_code": lambda row: code_of(row.webhook.status_reason),
    "period": "period.name",
    "requests": "requests",
    "failed": "failed",
    "finished": "finished",
    "given_up": "given_up",
    "p50_ms": "p50_ms",
    "p95_ms": "p95_ms",
    "queued": "queued",
    "failing_since": "failing.failing_since",
}


class ReceiversQuery:
    """The query of the page, with the names and values that it knows, and the links that change some of them."""

    def __init__(self, request: HttpRequest) -> None:
        self.values = QueryDict(mutable=True)
        self.sort = request.GET.get("sort", "")
        if self.sort.removeprefix("-") not in COLUMNS:
            self.sort = f"-{WORST}"
        self.values["sort"] = self.sort
        for name in ("window", *INTERVAL, "state", "owner", "skip", PAGE_VAR):
            if value := request.GET.get(name, ""):
                self.values[name] = value
        self.values.setdefault("window", Window.DAY.value)
        self.form = ReceiversForm(request.GET, auto_id="filter-%s")
        self.with_owners = knows_owners(request)
        if not self.with_owners:
            del self.form.fields["owner"]
        self.data = self.form.cleaned_data if self.form.is_valid() else {}
        self.period = Period.of(str(self.values["window"]), self.data, SPANS, Window.DAY)
        self.page = max(1, min(self._number(PAGE_VAR), MAX_PAGE))

    def _number(self, name: str) -> int:
        text = self.values.get(name, "")
        return int(text[:6]) if text.isascii() and text.isdecimal() else 0

    def changed(self, **changes: Any) -> str:
        """Return the query of a link with these changes; None removes a name."""
        changed = self.values.copy()
        for name, value in changes.items():
            changed.pop(name, None)
            if value is not None:
                changed[name] = str(value)
        return changed.urlencode()

    def order(self, request: HttpRequest, limit: int | None = None) -> ReceiverOrder:
        """Return the order of the webhooks, of which a page reads no more than ``limit``."""
        webhooks: QuerySet[Any] = own_rows(request, Webhook.objects.existing()).order_by()
        if not self.form.is_valid():
            webhooks = webhooks.none()
        if owner := self.data.get("owner"):
            webhooks = webhooks.filter(owner__in=found_owners(owner))
        return ReceiverOrder(
            found=webhooks,
            state=Standing(self.data["state"]) if self.data.get("state") else None,
            is_narrow=bool(owner) or not self.form.is_valid() or own_ids(request) is not None,
            sort=self.sort,
            period=self.period,
            limit=limit,
            skip=self._number("skip") if limit is not None else 0,
            now=timezone.now(),
        )

    def headings(self) -> Iterator[Heading]:
        for name, column in COLUMNS.items():
            if name == "owner" and not self.with_owners:
                continue
            first, second = (name, f"-{name}") if name in ASCENDING else (f"-{name}", name)
            turned = second if self.sort == first else first
            url = "?" + self.changed(sort=turned, skip=None, **{PAGE_VAR: None})
            direction = {name: "ascending", f"-{name}": "descending"}.get(self.sort, "")
            yield Heading(column.title, url, direction, column.is_number)


class ReceiversPage(ExportingAdmin, PageAdmin):
    """The webhooks that the user may view, with the results that the job ``recent`` has summed up."""

    def is_open(self, request: HttpRequest) -> bool:
        return views_webhooks(request) and shows_deliveries(request)

    def show(self, request: HttpRequest) -> TemplateResponse:
        query = ReceiversQuery(request)
        period, first = query.period, (query.page - 1) * WEBHOOKS_PER_PAGE
        end = first + WEBHOOKS_PER_PAGE + 1
        order = query.order(request, limit=end)
        ids = list(islice(order.ids(), first, end))
        rows, is_queue_counted = _rows(ids[:WEBHOOKS_PER_PAGE], period)
        first_page: dict[str, Any] = {PAGE_VAR: None}
        context = {
            "title": gettext("Receivers"),
            "form": query.form,
            "hidden": [(name, query.values[name]) for name in ("window", "sort") if name == "sort" or period.window],
            "is_filtered": bool(query.form.changed_data),
            "windows": windows(period.window, SPANS),
            "counted": None if period.window else tuple(map(moment, period.counted)),
            "kept_query": "&" + query.changed(window=None, skip=None, **first_page, **dict.fromkeys(INTERVAL)),
            "headings": list(query.headings()),
            "with_owners": query.with_owners,
            "rows": rows,
            "export_url": f"export/?{query.changed(skip=None, **first_page)}",
            "previous": query.changed(**{PAGE_VAR: query.page - 1}) if query.page > 1 else "",
            "next": query.changed(**{PAGE_VAR: query.page + 1}) if len(ids) > WEBHOOKS_PER_PAGE else "",
            "searched": order.most_examined if order.is_cut_short and len(ids) <= WEBHOOKS_PER_PAGE else 0,
            "further": "" if order.sorts_accounts else query.changed(skip=order.reached, **first_page),
            "most_failing": order.most_failing,
            "most_compared": order.most_compared,
            "is_queue_counted": is_queue_counted,
            **_times(),
        }
        return self.page(request, "receivers", **context)

    def rows_to_export(self, request: HttpRequest) -> ExportedRows:
        query = ReceiversQuery(request)
        if not query.form.is_valid():
            raise IncorrectLookupParameters
        values = {name: of for name, of in EXPORTED.items() if name != "account" or query.with_owners}
        return ExportedRows(_pages(query.order(request).ids(), query.period), values, query.changed(**{PAGE_VAR: None}))


def _times() -> dict[str, SafeString]:
    """Return when the figures were summed up last, and when the current round began, if known."""
    job = MaintenanceJob.objects.filter(name="recent").first()
    facts = job.facts if job else {}
    times = {name: parse_datetime(facts.get(key, "")) for name, key in (("as_of", "as_of"), ("begun_at", "round"))}
    return {name: moment(at) for name, at in times.items() if at}


def _queued(webhook_ids: Sequence[str]) -> dict[str, int] | None:
    """Count the queue of these webhooks now; return None if it is too long."""
    entries = QueueEntry.objects.filter(webhook__in=webhook_ids).order_by()
    webhooks = list(entries.values_list("webhook", flat=True)[: MAX_QUEUED + 1])
    return Counter(webhooks) if len(webhooks) <= MAX_QUEUED else None


def _pages(ids: Iterator[str], period: Period) -> Iterator[Sequence[ReceiverRow]]:
    """Yield the rows of these webhooks. Only some are in memory, and all identifiers."""
    while some := list(islice(ids, ROWS_PER_PAGE)):
        yield _rows(some, period)[0]


def _rows(webhook_ids: Sequence[str], period: Period) -> tuple[Sequence[ReceiverRow], bool]:
    """Return the rows of the existing webhooks, and True if the queue was counted now."""
    found = having_ids(Webhook.objects.select_related("owner", "health"), webhook_ids)
    webhooks = {webhook.pk: webhook for webhook in found}
    queued, judged = _queued(webhook_ids), healths_of(webhooks.values())
    figures = period.figures(webhooks.values())
    rows = [_row(webhooks[pk], judged[pk], period, figures[pk], queued) for pk in webhook_ids if pk in webhooks]
    return rows, queued is not None


def _row(
    webhook: Webhook, judged: Health, period: Period, figures: Mapping[str, Any], queued: Mapping[str, int] | None
) -> ReceiverRow:
    health = WebhookHealth.of(webhook)
    summed_up = health.recent.get(QUEUED, 0) if health else 0
    return ReceiverRow(
        webhook=webhook,
        period=period,
        state=judged.standing,
        requests=figures.get("requests", 0),
        failed=figures.get("failed", 0),
        finished=figures.get("finished", 0),
        given_up=figures.get("given_up", 0),
        p50_ms=figures.get("p50"),
        p95_ms=figures.get("p95"),
        queued=summed_up if queued is None else queued.get(webhook.pk, 0),
        failing=health if judged.standing is Standing.FAILING else None,
    )
