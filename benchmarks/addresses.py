"""The addresses of every page of the console and every list of the API, with each of their filters."""

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

from webhooks_app.api.routers import ApiRouter
from webhooks_app.event_types import registry
from webhooks_app.maintenance.rollups.reading import Window
from webhooks_app.models import Delivery, Webhook

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

    @property
    def middle(self) -> str:
        return f"after.{self.delivery.pk[-32:]}"

    @property
    def owner_name(self) -> str:
        return self.busy.owner.get_username() if self.busy.owner else ""

    def terms(self) -> Sequence[str]:
        """Return search terms with one result, with many, and with none."""
        ids = [self.busy.pk, self.of_another.pk, self.delivery.pk, str(self.delivery.event_id), f"wh_{NOWHERE}"]
        return [*ids, self.owner_name, "demo", "nobody", f"{self.owner_name} nobody"]


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


def _choices(model_admin: ModelAdmin[Any], user: Any) -> list[dict[str, str]]:
    """Return the query of each choice of each filter."""
    request = _request(user)
    change_list = model_admin.get_changelist_instance(request)
    strings = [choice["query_string"] for spec in change_list.filter_specs for choice in spec.choices(change_list)]
    queries = [RequestFactory().get(f"/{string}").GET.dict() for string in strings]
    return [query for query in queries if query]


def _typed(model_admin: ModelAdmin[Any], user: Any, examples: Examples) -> list[dict[str, str]]:
    """Return queries for the filters with a form, some of them without results."""
    specs = model_admin.get_changelist_instance(_request(user)).filter_specs
    names = [name for spec in specs if hasattr(spec, "form_class") for name in spec.form_class.base_fields]
    known = {
        "webhook": [examples.busy.pk, examples.of_another.pk, f"wh_{NOWHERE}", "https", "nobody.example"],
        "owner": [examples.owner_name, "nobody"],
    }
    return [{name: value} for name in names for value in known.get(name, _moments(examples))]


def _pages(model_admin: ModelAdmin[Any], request: HttpRequest, examples: Examples) -> Iterator[tuple[str, str]]:
    """Yield the other pages of a model, for its newest row, its oldest, and one in the middle."""
    name = str(model_admin.opts.model_name)
    visible = model_admin.get_queryset(request).order_by("pk")
    shown: list[Any] = [visible.first(), visible.last(), examples.busy, examples.delivery, examples.delivery.event]
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
            yield f"{name} page", reverse(f"admin:{pattern.name}", args=values)


def _combined(columns: Sequence[Sequence[Any]]) -> Iterator[tuple[Any, ...]]:
    if not columns:
        yield ()
        return
    for first in columns[0]:
        yield from ((first, *rest) for rest in _combined(columns[1:]))


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
        filterset = settings.get("filterset_class") or getattr(callback.cls, "filterset_class", None)
        is_list = not settings["detail"] or "filterset_class" in settings
        name = f"{callback.cls.tag.lower()} {'list' if is_list else 'page'}"
        yield f"API {name}", address
        if not is_list or filterset is None:
            continue
        filters = [
            {key: value} for key, found in filterset.base_filters.items() for value in _values(key, found, examples)
        ]
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


def _values(key: str, found: Any, examples: Examples) -> Sequence[str]:
    """Return values for a filter, some of them without results."""
    known = {
        "webhook_id": [examples.busy.pk, examples.of_another.pk, f"wh_{NOWHERE}"],
        "event_id": [str(examples.delivery.event_id), f"evt_{NOWHERE}"],
        "event_type": [next(iter(registry)).name, NOBODYS_TYPE],
        "type": [next(iter(registry)).name, NOBODYS_TYPE],
    }
    if key in known:
        return known[key]
    if choices := found.extra.get("choices"):
        return [value for value, _ in choices]
    return _moments(examples)


def _moments(examples: Examples) -> Sequence[str]:
    """Return a time among those of the rows, one before them and one after them."""
    return [examples.delivery.created_at.isoformat(), "2000-01-01T00:00:00Z", "2100-01-01T00:00:00Z"]


def _request(user: Any) -> HttpRequest:
    request = RequestFactory().get("/")
    request.user = user
    return request
