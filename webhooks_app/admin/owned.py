"""Lists in which each member of staff sees what is their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from itertools import chain
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.core.exceptions import SuspiciousOperation
from django.db.models import Q, QuerySet
from django.db.models.constants import LOOKUP_SEP
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import URLPattern

from ..models.audit import Actor, Via, acting
from ..models.keyset import WHOLE, Parts
from .change_list import KeysetChangeList

MANAGE_ALL = "webhooks_app.manage_all_webhooks"

NAMES = ("owner", "requested_by")
"""Columns that name accounts, for those who may know of others than their own."""

if TYPE_CHECKING:
    BaseAdmin = admin.ModelAdmin[Any]
else:
    BaseAdmin = admin.ModelAdmin


def manages_all(request: HttpRequest) -> bool:
    """Tell whether this member of staff may see and change what belongs to other accounts and to the platform."""
    return request.user.has_perm(MANAGE_ALL)


def accounts_named(name: str) -> list[Any]:
    """Return the account of this name, if there is one: looked up first, its rows are a stretch of an index."""
    accounts: Any = get_user_model()
    return list(accounts._default_manager.filter(**{accounts.USERNAME_FIELD: name}).values_list("pk", flat=True)[:2])


class OwnedAdmin(BaseAdmin):
    """Shows staff the rows of their own account; superusers, and who may manage all webhooks, see every row.

    A search finds exact ids, by index; ``id_lookups`` says which prefix an id has, and which field.
    """

    owner_lookup = "owner"
    id_lookups: tuple[tuple[str, str], ...] = ()

    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    list_per_page = 50
    sortable_by = ()
    search_fields = ("id",)

    class Media:
        css = {"all": ("webhooks_app/console.css",)}  # noqa: RUF012
        js = ("webhooks_app/console.js",)

    @property
    def urls(self) -> list[URLPattern]:
        """The pages, on which whoever is logged in does what is done."""
        return [_attributed(page) for page in super().urls]

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[KeysetChangeList]:
        return KeysetChangeList

    def parts(self, request: HttpRequest, query: str, filters: Sequence[Any]) -> Parts:
        """Return the stretches of an index which together are what the list shows, but for most of the filters."""
        return WHOLE

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        if any("\0" in text for name, values in request.GET.lists() for text in (name, *values)):
            raise SuspiciousOperation("The query contains NUL, which not every database takes.")
        return super().changelist_view(request, extra_context)

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        """Allow the filters of the list alone: each other field that can be asked for can be guessed bit by bit."""
        filters: list[Any] = [each[0] if isinstance(each, tuple) else each for each in self.list_filter]
        fields = [each for each in filters if isinstance(each, str)]
        names = chain.from_iterable(_parameters(each) for each in filters if not isinstance(each, str))
        return lookup.partition(LOOKUP_SEP)[0] in fields or lookup in names

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: Any = super().get_queryset(request)
        visible: QuerySet[Any] = rows if manages_all(request) else rows.owned_by(request.user)
        return visible

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        columns = super().get_list_display(request)
        return [column for column in columns if column not in NAMES or manages_all(request)]

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        for term in search_term.split():
            queryset = queryset.filter(self._matches(term))
        return queryset, False

    def matches_text(self, term: str) -> Q:
        """Return what a search for something that is no id finds: what belongs to the account of this name."""
        return Q(**{f"{self.owner_lookup}__in": accounts_named(term)})

    def is_id(self, term: str) -> bool:
        """Tell whether a search for this is one by index."""
        return "_" in term and term.partition("_")[0] in dict(self.id_lookups)

    def _matches(self, term: str) -> Q:
        if not self.is_id(term):
            return self.matches_text(term)
        return Q(**{dict(self.id_lookups)[term.partition("_")[0]]: term})


def _parameters(list_filter: Any) -> Sequence[str]:
    names: Sequence[str] = getattr(list_filter, "parameter_names", None) or (list_filter.parameter_name,)
    return names


def _without_names(fields: list[Any]) -> Iterator[Any]:
    for field in fields:
        if isinstance(field, tuple):
            yield tuple(name for name in field if name not in NAMES)
        elif field not in NAMES:
            yield field


def _attributed(page: URLPattern) -> URLPattern:
    view: Callable[..., HttpResponseBase] = page.callback

    @wraps(view)
    def act(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        with acting(Actor(via=Via.CONSOLE, account=request.user)):
            return view(request, *args, **kwargs)

    return URLPattern(page.pattern, act, page.default_args, page.name)


class ReadOnlyAdmin(OwnedAdmin):
    """Shows what only the app itself writes."""

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        fields: list[Any] = list(super().get_fields(request, obj))
        return fields if manages_all(request) else list(_without_names(fields))

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Refuse on the pages of this model; the page that deletes an account asks here as well, and may."""
        page = request.resolver_match.url_name if request.resolver_match else None
        is_own_page = (page or "").startswith(f"{self.opts.app_label}_{self.opts.model_name}_")
        return not is_own_page and super().has_delete_permission(request, obj)
