"""The addresses of every page of the console, every page of customers and every list of the API, with each filter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import admin
from django.contrib.admin.options import ModelAdmin
from django.http import HttpRequest
from django.test import RequestFactory
from django.urls import reverse
from django.utils.http import urlencode

from webhooks_app.admin.receiver_order import COLUMNS
from webhooks_app.admin.sidebar import PageAdmin
from webhooks_app.api.routers import ApiRouter
from webhooks_app.event_types import registry
from webhooks_app.maintenance.rollups.reading import Window
from webhooks_app.maintenance.rollups.recent import SPANS
from webhooks_app.models import ApiKey, Delivery, EventReference, Replay, Webhook
from webhooks_app.models.standing import Standing
from webhooks_app.pages.listing import ListFilter, RowList
from webhooks_app.pages.lists import DELIVERIES, EVENTS, WEBHOOKS
from webhooks_app.portal.actions import ACTIONS
from webhooks_app.portal.urls import account

APP = "webhooks_app"
NOWHERE = "f" * 32
"""Digits of an identifier newer than those of all rows."""

NOBODYS_TYPE = "nobodys.type"


@dataclass(frozen=True, kw_only=True)
class Examples:
    """Rows for the addresses of pages."""

    busy: Webhook
    """The webhook with the most deliveries."""
    of_another: Webhook
    delivery: Delivery
    """A delivery in the middle of the log of ``busy``."""
    failed: Delivery | None = None
    """A delivery to a failing webhook of the same account that was given up."""

    @property
    def references(self) -> list[str]:
        """References of the delivery's event: one of few events, and one of many."""
        return list(EventReference.objects.filter(event=self.delivery.event_id).values_list("value", flat=True))

    @property
    def middle(self) -> str:
        return f"after.{self.delivery.pk[-32:]}"

    @property
    def owner_name(self) -> str:
        return self.busy.owner.get_username() if self.busy.owner else ""

    def terms(self) -> Sequence[str]:
        """Return search terms with one result, with many, and with none."""
        ids = [self.busy.pk, self.of_another.pk, self.delivery.pk, str(self.delivery.event_id), f"wh_{NOWHERE}"]
        words = [self.owner_name, "demo", "healthy-1", "nobody", f"{self.owner_name} nobody"]
        return [*ids, *self.references, *words]


def of_console(user: Any, examples: Examples) -> Iterator[tuple[str, str]]:
    """Yield the kind and the address of each page for a member of staff."""
    yield "index", reverse("admin:index")
    for window in Window:
        yield "overview", reverse("admin:app_list", args=[APP]) + f"?window={window.value}"
    for model, model_admin in admin.site._registry.items():  # noqa: SLF001 - no public list on Django 5.2
        request = _request(user)
        if model._meta.app_label != APP or not model_admin.has_view_permission(request):
            continue
        name = str(model._meta.model_name)
        if isinstance(model_admin, PageAdmin):
            yield from ((f"{name} page", address) for address in _sorted(model_admin, examples))
            continue
        yield from ((f"{name} list", address) for address in _lists(model_admin, user, examples))
        yield from _pages(model_admin, request, examples)


def _lists(model_admin: ModelAdmin[Any], user: Any, examples: Examples) -> Iterator[str]:
    """Yield the addresses of a list: plain, further down, with each filter, with each search, and with both."""
    address = reverse(f"admin:{APP}_{model_admin.opts.model_name}_changelist")
    yield address
    cursors = [examples.middle, f"before.{examples.delivery.pk[-32:]}", f"before.{'0' * 32}", f"after.{'0' * 32}"]
    filters = [*_choices(model_admin, user), *_typed(model_admin, user, examples)]
    searches = [{"q": term} for term in examples.terms()]
    yield from (f"{address}?{urlencode({'cursor': cursor})}" for cursor in cursors)
    yield from (f"{address}?{urlencode(query)}" for query in (*filters, *searches))
    by_owner = {"q": examples.owner_name}
    for query in filters:
        yield f"{address}?{urlencode({**query, 'cursor': examples.middle})}"
        yield f"{address}?{urlencode({**query, **by_owner})}"
    # Two filters: the first selects few rows, and the second has to search among them.
    for first, second in zip(filters, filters[len(filters) // 2 :], strict=False):
        yield f"{address}?{urlencode({**first, **second})}"


def _sorted(model_admin: PageAdmin, examples: Examples) -> Iterator[str]:
    """Yield the addresses of a page; of the receivers also with each order, span and filter, and further down."""
    address = reverse(f"admin:{APP}_{model_admin.opts.model_name}_changelist")
    yield address
    if model_admin.opts.model_name != "receivers":
        return
    filters = [{}, {"owner": examples.owner_name}, *({"state": each.value} for each in Standing)]
    queries = [
        {"sort": sign + name, "window": window.value} for name in COLUMNS for sign in ("", "-") for window in SPANS
    ]
    for number, query in enumerate(queries):
        yield f"{address}?{urlencode(query)}"
        yield f"{address}?{urlencode({**query, **filters[number % len(filters)], 'p': str(1 + number % 20)})}"


def _choices(model_admin: ModelAdmin[Any], user: Any) -> list[dict[str, str]]:
    """Return the query of each choice of each filter."""
    request = _request(user)
    change_list = model_admin.get_changelist_instance(request)
    strings = [choice["query_string"] for spec in change_list.filter_specs for choice in spec.choices(change_list)]
    queries = [RequestFactory().get(f"/{string}").GET.dict() for string in strings]
    return [query for query in queries if query]


def _typed(model_admin: ModelAdmin[Any], user: Any, examples: Examples) -> list[dict[str, str]]:
    """Return queries for the filters with a form, some of them without results."""
    specs: Any = model_admin.get_changelist_instance(_request(user)).filter_specs
    typed = [each for spec in specs for each in spec.filters if not each.values]
    return [{each.name: value} for each in typed for value in _values(each, examples)]


def _pages(model_admin: ModelAdmin[Any], request: HttpRequest, examples: Examples) -> Iterator[tuple[str, str]]:
    """Yield the other pages of a model, for its newest row, its oldest, and one in the middle."""
    name = str(model_admin.opts.model_name)
    visible = model_admin.get_queryset(request).order_by("pk")
    shown: list[Any] = [visible.first(), visible.last(), examples.busy, examples.delivery, examples.delivery.event]
    shown += [examples.failed, examples.failed.event] if examples.failed else []
    ids = {row.pk for row in shown if type(row) is model_admin.model}
    arguments: Mapping[str, Sequence[Any]] = {
        "object_id": sorted(ids),
        "part": ["handshake", "recent"],
        "name": [next(iter(registry)).name],
    }
    for pattern in model_admin.get_urls():
        if not pattern.name or pattern.name.endswith("_changelist"):
            continue
        for values in _combined([arguments.get(key, ()) for key in pattern.pattern.converters]):
            address = reverse(f"admin:{pattern.name}", args=values)
            yield f"{name} page", address
            for query in _queries_of(pattern.name, examples):
                yield f"{name} page", f"{address}?{urlencode(query)}"


def _queries_of(name: str, examples: Examples) -> Iterator[dict[str, str]]:
    """Yield the queries of the pages that have some but are no lists."""
    if name.endswith("webhook_search"):
        yield from ({"q": term} for term in (*examples.terms(), examples.delivery.pk[:12], "dlv_0", "https", "e"))
    if name.endswith("webhook_change"):
        yield from ({"section": section} for section in ("deliveries", "settings", "verification"))
    if name.endswith("problem_impact"):
        causes: Sequence[Mapping[str, str]] = ({}, {"result": "timeout"}, {"answer": "503"})
        yield from ({"window": window.value, **cause} for window in Window for cause in causes)


def _combined(columns: Sequence[Sequence[Any]]) -> Iterator[tuple[Any, ...]]:
    if not columns:
        yield ()
        return
    for first in columns[0]:
        yield from ((first, *rest) for rest in _combined(columns[1:]))


def of_portal(examples: Examples) -> Iterator[tuple[str, str]]:
    """Yield the kind and the address of each page for the customer who owns the examples."""
    owner = str(examples.busy.owner_id)
    lists = {"webhooks": WEBHOOKS, "deliveries": DELIVERIES, "events": EVENTS}
    yield "portal accounts", reverse("webhooks_portal:accounts")
    for pattern in account:
        for values in _combined(
            [_portal_arguments(str(pattern.name), key, examples) for key in pattern.pattern.converters]
        ):
            address = reverse(f"webhooks_portal:{pattern.name}", args=(owner, *values))
            yield f"portal {pattern.name}", address
            for query in _portal_queries(lists.get(str(pattern.name)), examples):
                yield f"portal {pattern.name}", f"{address}?{urlencode(query)}"


def _portal_arguments(page: str, key: str, examples: Examples) -> Sequence[str]:
    """Return the values of a part of a URL of a customers' page; none for secrets, which are shown once."""
    if key != "pk":
        return {"action": list(ACTIONS), "name": [next(iter(registry)).name]}.get(key, ())
    webhooks = [examples.busy.pk, *([examples.failed.webhook_id] if examples.failed else [])]
    deliveries = [examples.delivery, *([examples.failed] if examples.failed else [])]
    found: Mapping[str, Sequence[str]] = {
        "deliver": [each.pk for each in deliveries],
        "event": [str(each.event_id) for each in deliveries],
        "key": list(ApiKey.objects.owned_by(examples.busy.owner).values_list("pk", flat=True)[:1]),
        "replay": list(Replay.objects.filter(webhook=examples.busy).values_list("pk", flat=True)[:1]),
        "webhook": webhooks,
    }
    if page == "replay-new":
        return webhooks
    return next(ids for start, ids in found.items() if page.startswith(start))


def _portal_queries(listed: RowList | None, examples: Examples) -> Iterator[dict[str, str]]:
    """Yield the queries of a customers' list: later pages, each filter, some pairs of them, and those with a state."""
    if listed is None:
        return
    offered = [each for each in listed.filters if each.name != "owner"]
    filters = [{each.name: value} for each in offered for value in _values(each, examples, is_page=True)]
    pages = [{"cursor": cursor} for cursor in (examples.middle, f"before.{'0' * 32}", f"after.{'0' * 32}")]
    yield from (*pages, *filters, *({**each, "cursor": examples.middle} for each in filters))
    for first, second in zip(filters, filters[len(filters) // 2 :], strict=False):
        yield {**first, **second}
    states = [each for each in filters if "state" in each]
    yield from ({**state, **each} for state in states for each in filters if state.keys() != each.keys())


def of_api(examples: Examples) -> Iterator[tuple[str, str]]:
    """Yield the kind and the address of each resource that an account can read."""
    for pattern in ApiRouter().urls:
        callback: Any = pattern.callback
        if "get" not in getattr(callback, "actions", {}):
            continue
        address = _filled(str(pattern.pattern), examples)
        if address is None:
            continue
        settings = callback.initkwargs
        listed: RowList | None = settings.get("listed", callback.cls.listed)
        given = settings.get("lookup_filter", "")
        is_list = callback.cls.operations[callback.actions["get"]].many
        name = f"{callback.cls.tag.lower()} {'list' if is_list else 'page'}"
        yield f"API {name}", address
        if not is_list or listed is None:
            continue
        offered = [each for each in listed.documented if each.name != given]
        filters = [{each.name: value} for each in offered for value in _values(each, examples)]
        pages = [{"cursor": examples.middle}, {"cursor": f"before.{'0' * 32}"}, {"limit": "200"}]
        for query in (*pages, *filters, *({**each, "cursor": examples.middle} for each in filters)):
            yield f"API {name}", f"{address}?{urlencode(query)}"
        for first, second in zip(filters, filters[len(filters) // 2 :], strict=False):
            yield f"API {name}", f"{address}?{urlencode({**first, **second, 'limit': '200'})}"


def _filled(route: str, examples: Examples) -> str | None:
    """Return the address of a route with identifiers of the examples; None if it has other parameters."""
    route = route.removeprefix("^").removesuffix("$").removesuffix("/?")
    for key, value in {
        "webhook_id": examples.busy.pk,
        "event_id": examples.delivery.event_id,
        "delivery_id": examples.delivery.pk,
        "name": next(iter(registry)).name,
    }.items():
        route = route.replace(f"(?P<{key}>[^/]+)", str(value))
    return None if "(" in route else f"/v1/{route}"


def _values(described: ListFilter, examples: Examples, *, is_page: bool = False) -> Sequence[str]:
    """Return values for a filter, some of them without results."""
    known: Mapping[str, Sequence[str]] = {
        "q": [examples.delivery.pk, str(examples.delivery.event_id), *examples.references, "healthy-1", "nobody"],
        "answer": ["418"],
        "owner": [examples.owner_name, "nobody"],
        "reference": [*examples.references, "nobody"],
        "replay_id": list(Replay.objects.filter(webhook=examples.busy).values_list("pk", flat=True)[:1]),
        "subject": [examples.busy.pk],
        "webhook_id": [examples.busy.pk, examples.of_another.pk, f"wh_{NOWHERE}"],
        "event_id": [str(examples.delivery.event_id), f"evt_{NOWHERE}"],
        "event_type": [next(iter(registry)).name, NOBODYS_TYPE],
        "type": [next(iter(registry)).name, NOBODYS_TYPE],
    }
    if described.values:
        return [value for value, _label in described.choices(is_page=is_page)]
    return _moments(examples) if described.is_moment else [*described.samples, *known.get(described.name, ())]


def _moments(examples: Examples) -> Sequence[str]:
    """Return a time among those of the rows, one before them and one after them."""
    return [examples.delivery.created_at.isoformat(), "2000-01-01T00:00:00Z", "2100-01-01T00:00:00Z"]


def _request(user: Any) -> HttpRequest:
    request = RequestFactory().get("/")
    request.user = user
    return request
