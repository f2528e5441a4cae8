"""Receivers: each webhook in one row with its recent results, sorted by any of them; by default the worst first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import chain, count, islice
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
from ..maintenance.rollups.reading import Window
from ..maintenance.rollups.recent import QUEUED, SPANS
from ..models import MaintenanceJob, QueueEntry, RecentResults, Webhook, WebhookHealth
from ..models.fields import translated
from ..models.rollup import EVERY_WEBHOOK
from ..models.standing import Health, Standing, conditions, healths_of
from ..owners import owners
from ..pages.charts import TITLES
from ..pages.display import moment, percent
from ..pages.health import failing_for
from ..reasons import code_of
from .display import shows_deliveries
from .export import ROWS_PER_PAGE, ExportedRows, ExportingAdmin, account_of, shown_account_of
from .filters import OwnerForm
from .owned import found_owners, knows_owners, own_ids, own_rows
from .sidebar import PageAdmin, views_webhooks
from .webhook_health import FAILS_AFTER

PER_PAGE = 50
MAX_PAGE = 1000

MIN_REQUESTS = 10
"""The fewest requests by which error rates are compared, unless the webhook has been failing for some time."""

MAX_QUEUED = 2000
"""The most queued deliveries that a page counts. With more, it shows the numbers that a worker has summed up."""

MAX_CHOSEN, EXAMINED, SORTED = 2000, 200, 500
"""The most webhooks that an index finds, to be sorted; how many of the order are examined at a time; and how many are
sorted by account at a time."""

MAX_EXAMINED = 1000
"""The most webhooks that a page examines. It has a link to search further. An export examines all."""

MAX_EXAMINED_BY_QUEUE = 500
"""The same if the state depends on the queue, of which rows are read too."""

MAX_FAILING = 2000
"""The most failing webhooks that an order knows: the longest failing. It has the others as if they were not failing."""

WORST = "errors"

NOT_INDEXED = (Standing.HEALTHY, Standing.RETRYING, Standing.DELAYED, Standing.HELD_BACK)
"""States in which no index finds the webhooks."""


class ReceiversForm(OwnerForm):
    state = forms.ChoiceField(
        label=_("State"),
        required=False,
        choices=[("", _("All")), *Standing.choices],
    )

    field_order = ("state", "owner")


class Column(NamedTuple):
    """A column by which the list can be sorted, and the figure of a span of time whose column it is, if any."""

    title: Any
    figure: str = ""
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
    "period": "window.value",
    "requests": "requests",
    "failed": "failed",
    "finished": "finished",
    "given_up": "given_up",
    "p50_ms": "p50_ms",
    "p95_ms": "p95_ms",
    "queued": "queued",
    "failing_since": "failing.failing_since",
}


COLUMNS: Mapping[str, Column] = {
    "owner": Column(_("Account"), is_number=False),
    "state": Column(_("State"), is_number=False),
    WORST: Column(_("Failed requests"), "worst"),
    "lost": Column(_("Given up"), "given_up"),
    "volume": Column(_("Deliveries"), "finished"),
    "p50": Column(_("Median (ms)"), "p50"),
    "p95": Column(_("95th percentile (ms)"), "p95"),
    "queued": Column(_("Queued")),
    "failing": Column(_("Failing"), is_number=False),
}

ASCENDING = ("owner", "state", "failing")
"""Columns that are first sorted upwards: names, and the longest failure."""


class ReceiversPage(ExportingAdmin, PageAdmin):
    """The webhooks that the user may view, with the results that the job ``recent`` has summed up."""

    def is_open(self, request: HttpRequest) -> bool:
        return views_webhooks(request) and shows_deliveries(request)

    def show(self, request: HttpRequest) -> TemplateResponse:
        query = _query(request)
        form = _form(request)
        window, page = _window(query), _page(query)
        first = (page - 1) * PER_PAGE
        end = first + PER_PAGE + 1
        order = self._order(request, form, limit=end)
        ids = list(islice(order.ids(), first, end))
        rows, is_queue_counted = _rows(ids[:PER_PAGE], window)
        context = {
            "title": gettext("Receivers"),
            "form": form,
            "hidden": [(name, query[name]) for name in ("window", "sort")],
            "is_filtered": bool(form.changed_data),
            "windows": [(each.value, TITLES[each], each is window) for each in SPANS],
            "kept_query": "&" + _changed(query, window=None, skip=None, **{PAGE_VAR: None}),
            "headings": _headings(query, with_owners=knows_owners(request)),
            "with_owners": knows_owners(request),
            "rows": rows,
            "export_url": f"export/?{_changed(query, skip=None, **{PAGE_VAR: None})}",
            "previous": _changed(query, **{PAGE_VAR: page - 1}) if page > 1 else "",
            "next": _changed(query, **{PAGE_VAR: page + 1}) if len(ids) > PER_PAGE else "",
            "searched": order.most_examined if order.is_cut_short and len(ids) <= PER_PAGE else 0,
            "further": "" if order.sorts_accounts else _changed(query, skip=order.reached, **{PAGE_VAR: None}),
            "most_failing": MAX_FAILING if order.has_more_failing else 0,
            "is_queue_counted": is_queue_counted,
            **_times(),
        }
        return self.page(request, "receivers", **context)

    def rows_to_export(self, request: HttpRequest) -> ExportedRows:
        query, form = _query(request), _form(request)
        if not form.is_valid():
            raise IncorrectLookupParameters
        window = _window(query)
        ids = self._order(request, form).ids()
        values = {name: of for name, of in EXPORTED.items() if name != "account" or knows_owners(request)}
        return ExportedRows(_pages(ids, window), values, _changed(query, **{PAGE_VAR: None}))

    def _order(self, request: HttpRequest, form: ReceiversForm, limit: int | None = None) -> _Order:
        query = _query(request)
        data = form.cleaned_data if form.is_valid() else {}
        found: QuerySet[Any] = own_rows(request, Webhook.objects.existing()).order_by()
        if not form.is_valid():
            found = found.none()
        if owner := data.get("owner"):
            found = found.filter(owner__in=found_owners(owner))
        return _Order(
            found=found,
            state=Standing(data["state"]) if data.get("state") else None,
            is_narrow=bool(owner) or not form.is_valid() or own_ids(request) is not None,
            sort=str(query["sort"]),
            window=_window(query),
            limit=limit,
            skip=_number(query, "skip") if limit is not None else 0,
            now=timezone.now(),
        )


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
    for name in ("window", "state", "owner", "skip", PAGE_VAR):
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
    return max(1, min(_number(query, PAGE_VAR), MAX_PAGE))


def _number(query: QueryDict, name: str) -> int:
    text = query.get(name, "")
    return int(text[:6]) if text.isascii() and text.isdecimal() else 0


@dataclass(kw_only=True)
class _Order:
    """The order of the list, in which webhooks without a value are last, and the newest of equal ones is first.

    It reads the results of all webhooks from a few rows, and then only the webhooks that it yields and some more.
    """

    found: QuerySet[Any]
    state: Standing | None
    is_narrow: bool
    """Whether ``found`` has only the webhooks of some accounts."""
    sort: str
    window: Window
    limit: int | None
    skip: int
    """The number of webhooks in this order that pages before have examined."""
    now: datetime
    reached: int = 0
    """The number of webhooks that have been skipped or examined."""
    is_cut_short: bool = False
    """True if more than ``most_examined`` webhooks would have to be examined."""
    has_more_failing: bool = False
    """True if the order does not know all failing webhooks."""

    @property
    def most_examined(self) -> int:
        return MAX_EXAMINED_BY_QUEUE if self.state in NOT_INDEXED else MAX_EXAMINED

    @property
    def sorts_accounts(self) -> bool:
        return self.sort.removeprefix("-") == "owner"

    def ids(self) -> Iterator[str]:
        name = self.sort.removeprefix("-")
        if name == "owner":
            return chain.from_iterable(map(self._matching, self._by_owner()))
        if name != "state":
            return self._in_state(self.state, self._values(name))
        states: Sequence[Standing | None] = [self.state] if self.state else self._sorted(Standing)
        webhooks = dict.fromkeys(_summed_up(QUEUED))
        return chain.from_iterable(self._in_state(state, webhooks) for state in states)

    def _sorted(self, names: Iterable[Any]) -> list[Any]:
        return list(names)[:: -1 if self._is_descending else 1]

    @property
    def _is_descending(self) -> bool:
        return self.sort.startswith("-")

    def _by_owner(self) -> Iterator[Sequence[str]]:
        """Yield some webhooks at a time, sorted by the names of their accounts. Those of the platform are last."""
        few = self._few(self.state)
        found = self.found if few is None else self.found.filter(pk__in=few)
        name = f"owner__{owners().name_field}"
        named = found.filter(**{f"{name}__isnull": False}).order_by(f"-{name}" if self._is_descending else name, "-pk")
        for each in (named, found.filter(owner=None).order_by("-pk")):
            ids = each.values_list("pk", flat=True)
            if self.limit is None:
                yield list(ids)
                continue
            for start in count(0, SORTED):
                yield (some := list(ids[start : start + SORTED]))
                if len(some) < SORTED or self.is_cut_short:
                    break

    def _values(self, name: str) -> dict[str, Any]:
        """Return each webhook that has been summed up, with the value by which it is sorted, or None."""
        if name == "queued":
            return _summed_up(QUEUED)
        results = _summed_up(self.window.value)
        failing = self._failing if name in ("failing", WORST) else {}
        self.has_more_failing = len(failing) > MAX_FAILING
        if name == "failing":
            return dict.fromkeys(results) | dict(islice(failing.items(), MAX_FAILING))
        figure = COLUMNS[name].figure
        since = self.now - FAILS_AFTER
        longer = {pk for pk, at in islice(failing.items(), MAX_FAILING) if at <= since}
        return {
            pk: figures.get(figure)
            if figures and (name != WORST or pk in longer or figures.get("requests", 0) >= MIN_REQUESTS)
            else None
            for pk, figures in results.items()
        }

    @cached_property
    def _failing(self) -> dict[str, datetime]:
        """Return since when webhooks have been failing, the longest first; one too many if there are more."""
        failing = WebhookHealth.objects.failing(self.now).order_by("failing_since")
        return dict(failing.values_list("pk", "failing_since")[: MAX_FAILING + 1])

    @cached_property
    def _narrow(self) -> Collection[str] | None:
        few = list(self.found.values_list("pk", flat=True)[: MAX_CHOSEN + 1])
        return few if len(few) <= MAX_CHOSEN else None

    def _few(self, state: Standing | None) -> Collection[str] | None:
        """Return all webhooks in this state and maybe others, if an index finds them and they are few."""
        if self.is_narrow:
            return self._narrow
        if state is Standing.FAILING:
            return self._failing if len(self._failing) <= MAX_FAILING else None
        if state in (None, *NOT_INDEXED):
            return None
        if state is Standing.UNUSED:
            used = _summed_up(Window.WEEK.value)
            few = [pk for pk in self._all(used) if not used.get(pk)]
        else:
            found = self.found.filter(conditions(self.now)[state])
            few = list(found.values_list("pk", flat=True)[: MAX_CHOSEN + 1])
        return few if len(few) <= MAX_CHOSEN else None

    def _in_state(self, state: Standing | None, values: Mapping[str, Any]) -> Iterator[str]:
        """Yield the sorted webhooks in this state, or all."""
        if self.is_cut_short:
            return
        ids = self._few(state)
        candidates = self._by_value(self._all(values) if ids is None else ids, values)
        for start in range(0, len(candidates), EXAMINED):
            yield from self._matching(candidates[start : start + EXAMINED], state)

    def _all(self, summed_up: Collection[str]) -> set[str]:
        """Return these webhooks and the newer ones."""
        newer = self.found.filter(pk__gt=max(summed_up, default=EVERY_WEBHOOK))
        return {*summed_up, *newer.values_list("pk", flat=True)}

    def _matching(self, ids: Sequence[str], state: Standing | None = None) -> list[str]:
        """Return which of these webhooks exist and are in this state, in the same order.

        Of a page, some may be skipped, and only ``most_examined`` are examined.
        """
        state = state or self.state
        if self.limit is not None and (state or not self.sorts_accounts):
            skipped = min(len(ids), max(0, self.skip - self.reached))
            ids = ids[skipped:]
            self.reached += skipped
            room = self.skip + self.most_examined - self.reached
            self.is_cut_short = self.is_cut_short or len(ids) > room
            ids = ids[:room]
            self.reached += len(ids)
        if not ids:
            return []
        found = having_ids(self.found, ids)
        if state is None:
            matching = set(found.values_list("pk", flat=True))
        else:
            webhooks = found.defer("filter", "encrypted_headers").select_related("health")
            judged = healths_of(webhooks, self.now)
            matching = {pk for pk in judged if judged[pk].standing is state}
        return [pk for pk in ids if pk in matching]

    def _by_value(self, ids: Iterable[str], values: Mapping[str, Any]) -> list[str]:
        newest = sorted(ids, reverse=True)
        known = [pk for pk in newest if values.get(pk) is not None]
        unknown = [pk for pk in newest if values.get(pk) is None]
        return [*sorted(known, key=lambda pk: values[pk], reverse=self._is_descending), *unknown]


def _summed_up(part: str) -> dict[str, Any]:
    """Return each webhook that has been summed up, with this part of its recent results, or None."""
    rows = RecentResults.objects.order_by("pk").values_list("results__ids", f"results__{part}")
    return {pk: results.get(pk) for ids, results in rows for pk in ids}


def _headings(query: QueryDict, *, with_owners: bool) -> list[Heading]:
    current, headings = str(query["sort"]), []
    for name, column in COLUMNS.items():
        if name == "owner" and not with_owners:
            continue
        first, second = (name, f"-{name}") if name in ASCENDING else (f"-{name}", name)
        url = "?" + _changed(query, sort=second if current == first else first, skip=None, **{PAGE_VAR: None})
        direction = {name: "ascending", f"-{name}": "descending"}.get(current, "")
        headings.append(Heading(column.title, url, direction, column.is_number))
    return headings


def _pages(ids: Iterator[str], window: Window) -> Iterator[Sequence[ReceiverRow]]:
    """Yield the rows of these webhooks. Only some are in memory, and all identifiers."""
    while some := list(islice(ids, ROWS_PER_PAGE)):
        yield _rows(some, window)[0]


def _rows(webhook_ids: Sequence[str], window: Window) -> tuple[Sequence[ReceiverRow], bool]:
    """Return the rows of the existing webhooks, and True if the queue was counted now."""
    found = Webhook.objects.select_related("owner", "health").in_bulk(webhook_ids)
    queued, judged = _queued(webhook_ids), healths_of(found.values())
    rows = [_row(found[pk], judged[pk], window, queued) for pk in webhook_ids if pk in found]
    return rows, queued is not None


def _row(webhook: Webhook, judged: Health, window: Window, queued: Mapping[str, int] | None) -> ReceiverRow:
    health = WebhookHealth.of(webhook)
    recent: Mapping[str, Any] = health.recent if health else {}
    figures = recent.get(window.value, {})
    return ReceiverRow(
        webhook=webhook,
        window=window,
        state=judged.standing,
        requests=figures.get("requests", 0),
        failed=figures.get("failed", 0),
        finished=figures.get("finished", 0),
        given_up=figures.get("given_up", 0),
        p50_ms=figures.get("p50"),
        p95_ms=figures.get("p95"),
        queued=recent.get(QUEUED, 0) if queued is None else queued.get(webhook.pk, 0),
        failing=health if judged.standing is Standing.FAILING else None,
    )
