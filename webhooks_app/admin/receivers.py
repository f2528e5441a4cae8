"""Receivers: each webhook in one row with its recent results, sorted by any of them; by default the worst first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple

from django import forms
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import PAGE_VAR
from django.db.models import Case, F, FloatField, Q, QuerySet, Value, When
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.db.models.functions import Cast
from django.http import HttpRequest, QueryDict
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..maintenance.rollups.reading import Window
from ..maintenance.rollups.recent import QUEUED, SPANS
from ..models import MaintenanceJob, QueueEntry, Webhook, WebhookHealth
from ..models.health import Standing
from ..owners import owners
from ..pages.display import moment, percent, translated
from ..pages.health import failing_for
from ..reasons import code_of
from .display import shows_deliveries
from .export import ROWS_PER_PAGE, ExportingAdmin, Rows, account_of, shown_account_of
from .filters import OwnerForm
from .overview import TITLES
from .owned import found_owners, knows_owners, own_rows
from .sidebar import PageAdmin, views_webhooks
from .webhook_health import FAILS_AFTER

PER_PAGE = 50
MAX_PAGE = 1000

MIN_DELIVERIES = 10
"""The fewest deliveries by which error rates are compared, unless the webhook has been failing for some time."""

MAX_QUEUED = 5000
"""The most queued deliveries that a page counts. With more, it shows the numbers that a worker has summed up."""

WORST = "errors"


class ReceiversForm(OwnerForm):
    state = forms.ChoiceField(
        label=_("State"),
        required=False,
        choices=[("", _("All")), *((each.value, each.label) for each in Standing.conditions())],
    )

    field_order = ("state", "owner")


class Column(NamedTuple):
    """A column by which the list can be sorted: its title, and its order for a span of time."""

    title: Any
    order: Callable[[Window, datetime], Any]
    is_number: bool = True


class Heading(NamedTuple):
    title: Any
    url: str
    sorted: str
    """``ascending`` or ``descending`` if the list is sorted by this column, otherwise ""."""
    is_number: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ReceiverRow:
    webhook: Webhook
    window: Window
    state: Standing
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
        return percent(self.given_up, self.finished) if self.finished else ""

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
    "period": "window.value",
    "finished": "finished",
    "given_up": "given_up",
    "p50_ms": "p50_ms",
    "p95_ms": "p95_ms",
    "queued": "queued",
    "failing_since": "failing.failing_since",
}


def _number(name: str, figures: Any = "health__recent") -> Cast:
    return Cast(KeyTextTransform(name, figures), FloatField())


def _recent(window: Window, name: str) -> Cast:
    return _number(name, KeyTransform(window.value, "health__recent"))


def _figure(name: str) -> Callable[[Window, datetime], Any]:
    return lambda window, now: _recent(window, name)


def _worst(window: Window, now: datetime) -> Case:
    """Return the lower bound of the error rate, for webhooks with enough deliveries or failing for long enough."""
    is_enough = Q(enough__gte=MIN_DELIVERIES) | Q(health__failing_since__lte=now - FAILS_AFTER)
    return Case(When(is_enough, then=_recent(window, "worst")))


def _gravity() -> Case:
    """Return the place of the shown state, from failing to healthy."""
    conditions = enumerate(Standing.conditions().values())
    return Case(*(When(is_it, then=Value(place)) for place, is_it in conditions), output_field=FloatField())


def _owner(window: Window, now: datetime) -> F:
    return F(f"owner__{owners().name_field}")


COLUMNS: Mapping[str, Column] = {
    "owner": Column(_("Account"), _owner, is_number=False),
    "state": Column(_("State"), lambda window, now: _gravity(), is_number=False),
    WORST: Column(_("Error rate"), _worst),
    "volume": Column(_("Deliveries"), _figure("finished")),
    "p50": Column(_("Median (ms)"), _figure("p50")),
    "p95": Column(_("95th percentile (ms)"), _figure("p95")),
    "queued": Column(_("Queued"), lambda window, now: _number(QUEUED)),
    "failing": Column(_("Failing"), lambda window, now: F("health__failing_since"), is_number=False),
}

ASCENDING = ("owner", "state", "failing")
"""Columns that are first sorted upwards: names, and the longest failure."""


class ReceiversPage(ExportingAdmin, PageAdmin):
    """The webhooks that the user may view, with the results that the job ``recent`` has summed up."""

    def is_open(self, request: HttpRequest) -> bool:
        return views_webhooks(request) and shows_deliveries(request)

    def show(self, request: HttpRequest) -> TemplateResponse:
        query, now = _query(request), timezone.now()
        sort = str(query["sort"])
        form = _form(request)
        window, page = _window(query), _page(query)
        first = (page - 1) * PER_PAGE
        ids = list(_sorted_ids(self._matching(request, form), sort, window, now)[first : first + PER_PAGE + 1])
        rows, is_queue_counted = _rows(ids[:PER_PAGE], window)
        context = {
            "title": gettext("Receivers"),
            "form": form,
            "hidden": [(name, query[name]) for name in ("window", "sort")],
            "is_filtered": bool(form.changed_data),
            "windows": [(each.value, TITLES[each], each is window) for each in SPANS],
            "kept_query": "&" + _changed(query, window=None, **{PAGE_VAR: None}),
            "headings": _headings(query, with_owners=knows_owners(request)),
            "with_owners": knows_owners(request),
            "rows": rows,
            "export_url": f"export/?{_changed(query, **{PAGE_VAR: None})}",
            "previous": _changed(query, **{PAGE_VAR: page - 1}) if page > 1 else "",
            "next": _changed(query, **{PAGE_VAR: page + 1}) if len(ids) > PER_PAGE else "",
            "is_queue_counted": is_queue_counted,
            **_times(),
        }
        return self.page(request, "receivers", **context)

    def rows_to_export(self, request: HttpRequest) -> Rows:
        query, form = _query(request), _form(request)
        if not form.is_valid():
            raise IncorrectLookupParameters
        window = _window(query)
        ids = _sorted_ids(self._matching(request, form), str(query["sort"]), window, timezone.now())
        values = {name: of for name, of in EXPORTED.items() if name != "account" or knows_owners(request)}
        return Rows(_pages(ids, window), values, _changed(query, **{PAGE_VAR: None}))

    def _matching(self, request: HttpRequest, form: ReceiversForm) -> QuerySet[Any]:
        found: QuerySet[Any] = own_rows(request, Webhook.objects.existing())
        if not form.is_valid():
            return found.none()
        if state := form.cleaned_data["state"]:
            found = found.filter(Standing.conditions()[Standing(state)])
        if owner := form.cleaned_data.get("owner"):
            found = found.filter(owner__in=found_owners(owner))
        return found


def _form(request: HttpRequest) -> ReceiversForm:
    form = ReceiversForm(request.GET, auto_id="filter-%s")
    if not knows_owners(request):
        del form.fields["owner"]
    return form


def _times() -> dict[str, SafeString]:
    """Return when the figures were summed up last, and when the current round began, if known."""
    job = MaintenanceJob.objects.filter(name="recent").first()
    facts = job.facts if job else {}
    times = {name: parse_datetime(facts.get(key, "")) for name, key in (("as_of", "as_of"), ("begun_at", "round"))}
    return {name: moment(at) for name, at in times.items() if at}


def _queued(webhook_ids: Sequence[str]) -> dict[str, int] | None:
    """Count the queue of these webhooks now; return None if it is too long."""
    entries = QueueEntry.objects.filter(webhook__in=webhook_ids).order_by()
    found = list(entries.values_list("webhook", flat=True)[: MAX_QUEUED + 1])
    return Counter(found) if len(found) <= MAX_QUEUED else None


def _query(request: HttpRequest) -> QueryDict:
    """Return the query with the names and values that the page knows."""
    query = QueryDict(mutable=True)
    sort = request.GET.get("sort", "")
    query["sort"] = sort if sort.removeprefix("-") in COLUMNS else f"-{WORST}"
    for name in ("window", "state", "owner", PAGE_VAR):
        if value := request.GET.get(name, ""):
            query[name] = value
    query.setdefault("window", Window.DAY.value)
    return query


def _changed(query: QueryDict, **changes: Any) -> str:
    """Return the query of a link with these changes; None removes a name."""
    changed = query.copy()
    for name, value in changes.items():
        changed.pop(name, None)
        if value is not None:
            changed[name] = str(value)
    return changed.urlencode()


def _window(query: QueryDict) -> Window:
    return {window.value: window for window in SPANS}.get(query["window"], Window.DAY)


def _page(query: QueryDict) -> int:
    text = query.get(PAGE_VAR, "1")
    return max(1, min(int(text[:6]), MAX_PAGE)) if text.isascii() and text.isdecimal() else 1


def _sorted_ids(found: QuerySet[Any], sort: str, window: Window, now: datetime) -> QuerySet[Any]:
    """Return the sorted identifiers of the webhooks. Those without a value are last.

    The database does not sort whole rows, because it would write those of thousands of webhooks to a disk.
    """
    column = COLUMNS[sort.removeprefix("-")]
    if column is COLUMNS[WORST]:
        found = found.alias(enough=_recent(window, "finished"))
    found = found.alias(sorted_by=column.order(window, now))
    value = F("sorted_by")
    order = value.desc(nulls_last=True) if sort.startswith("-") else value.asc(nulls_last=True)
    return found.order_by(order, "-pk").values_list("pk", flat=True)


def _headings(query: QueryDict, *, with_owners: bool) -> list[Heading]:
    current, headings = str(query["sort"]), []
    for name, column in COLUMNS.items():
        if name == "owner" and not with_owners:
            continue
        first, second = (name, f"-{name}") if name in ASCENDING else (f"-{name}", name)
        url = "?" + _changed(query, sort=second if current == first else first, **{PAGE_VAR: None})
        direction = {name: "ascending", f"-{name}": "descending"}.get(current, "")
        headings.append(Heading(column.title, url, direction, column.is_number))
    return headings


def _pages(ids: QuerySet[Any], window: Window) -> Iterator[Sequence[ReceiverRow]]:
    """Yield the rows of these webhooks. Only some are in memory, and all identifiers where there are no cursors."""
    read = ids.iterator(chunk_size=ROWS_PER_PAGE)
    while some := list(islice(read, ROWS_PER_PAGE)):
        yield _rows(some, window)[0]


def _rows(webhook_ids: Sequence[str], window: Window) -> tuple[Sequence[ReceiverRow], bool]:
    """Return the rows of the existing webhooks, and True if the queue was counted now."""
    found = Webhook.objects.select_related("owner", "health").in_bulk(webhook_ids)
    queued = _queued(webhook_ids)
    return [_row(found[pk], window, queued) for pk in webhook_ids if pk in found], queued is not None


def _row(webhook: Webhook, window: Window, queued: Mapping[str, int] | None) -> ReceiverRow:
    health = WebhookHealth.of(webhook)
    recent: Mapping[str, Any] = health.recent if health else {}
    figures = recent.get(window.value, {})
    standing = Standing.of(webhook)
    return ReceiverRow(
        webhook=webhook,
        window=window,
        state=standing,
        finished=figures.get("finished", 0),
        given_up=figures.get("given_up", 0),
        p50_ms=figures.get("p50"),
        p95_ms=figures.get("p95"),
        queued=recent.get(QUEUED, 0) if queued is None else queued.get(webhook.pk, 0),
        failing=health if standing is Standing.FAILING else None,
    )
