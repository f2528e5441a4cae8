"""Base admins that show staff only the rows of their own owners."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest
from django.urls import URLPattern, path
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext_lazy as _

from ..event_types import EventTypeRegistry, registry
from ..models import Webhook
from ..models.base import BaseQuerySet
from ..operations.actors import StaffMember
from ..operations.rights import Right
from ..owners import Access, event_types_for, owners
from ..pages.display import MAX_URL, NO_VALUE, breakable
from ..pages.listing import Asked, RowList
from .change_list import KeysetChangeList
from .display import console_url, copyable

OwnerRows = TypeVar("OwnerRows", bound=BaseQuerySet[Any])

NAMES = ("owner_name", "requested_by", "created_by")
"""Columns with account names, hidden from users who may see only their own account."""

EVERY_ACCOUNT = _("Every account")
"""Shown as the account of a webhook of the platform."""

if TYPE_CHECKING:
    BaseAdmin = admin.ModelAdmin[Any]
else:
    BaseAdmin = admin.ModelAdmin


def actor_of(request: HttpRequest) -> StaffMember:
    """Return the user of the console as an actor of operations, the same instance throughout a request."""
    actor = getattr(request, "webhooks_actor", None)
    if actor is None or actor.account != request.user:
        actor = request.webhooks_actor = StaffMember(account=request.user)  # type: ignore[attr-defined]
    return actor


def manages_all(request: HttpRequest) -> bool:
    """Return True if the user may view and change the rows of every owner and of the platform."""
    return actor_of(request).manages_all


def own_rows(request: HttpRequest, rows: QuerySet[Any], lookup: str = "owner") -> QuerySet[Any]:
    """Return the rows that the user may view: those of their owners, as these may see them, or all."""
    if manages_all(request):
        return rows
    own = rows.filter(**{f"{lookup}__in": actor_of(request).owner_ids})
    return own.for_owner() if isinstance(own, BaseQuerySet) else own


def own_ids(request: HttpRequest) -> Collection[Any] | None:
    """Return the ids of the user's owners, or None if the user sees the rows of all."""
    actor = actor_of(request)
    return None if actor.manages_all else actor.owner_ids


def as_shown(request: HttpRequest, rows: OwnerRows) -> OwnerRows:
    """Return the rows as the user may see them: completely, or as their owner."""
    return rows if manages_all(request) else rows.for_owner()


def visible_event_types(request: HttpRequest) -> EventTypeRegistry:
    """Return the event types that the user may view: those of their owners, or all."""
    if manages_all(request):
        return registry
    visible = [event_types_for(owner) for owner in actor_of(request).owners]
    return registry.where(lambda event_type: any(event_type.name in each for each in visible))


class OwnedAdmin(BaseAdmin):
    """Base admin that shows users the rows of their owners, and every row to users who manage all webhooks."""

    listed: ClassVar[RowList]
    """The description of the list."""

    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    list_per_page = 50
    empty_value_display = NO_VALUE
    sortable_by = ()
    search_fields = ("id",)
    show_add_link = True  # Unfold shows its button only then

    class Media:
        css = {"all": ("webhooks_app/shared.css", "webhooks_app/console.css")}  # noqa: RUF012
        js = ("webhooks_app/console.js",)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[KeysetChangeList]:
        return KeysetChangeList

    def prepare(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        """Attach to the rows of a page what its columns show besides, with queries for all of them at once."""

    def page_context(self, request: HttpRequest, item: Any) -> dict[str, Any]:
        """Return what the page of a row shows besides its fields. ``item`` is None in the form for a new one."""
        return {}

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> Any:
        context |= self.page_context(request, kwargs.get("obj"))
        return super().render_change_form(request, context, *args, **kwargs)

    def asked(self, request: HttpRequest, values: Mapping[str, Any]) -> Asked:
        """Return the question of a user to the list."""
        return Asked(self.listed, values, owner_ids=own_ids(request), hides_rows=self.hides_rows(request))

    def own_path(self, route: str, view: Callable[..., Any], name: str) -> URLPattern:
        """Return a URL of this admin, named as Django names its own."""
        return path(route, self.admin_site.admin_view(view), name=f"webhooks_app_{self.opts.model_name}_{name}")

    def url(self, page: str, *args: str, **query: str) -> str:
        """Return the URL of a page of the console on this site, as ``console_url``."""
        return console_url(page, *args, site=self.admin_site.name, **query)

    def delivery_url(self, pk: str) -> str:
        return self.url("delivery_change", pk)

    def deliveries_url(self, **query: str) -> str:
        """Return the URL of the list of deliveries, filtered by the query."""
        return self.url("delivery_changelist", **query)

    def link_to(self, item: Model | None, text: str = "") -> SafeString | str:
        """Return a link to the page of a row, with the ID or a text; the empty value without a row."""
        if item is None:
            return self.get_empty_value_display()
        url = self.url(f"{item._meta.model_name}_change", item.pk)
        return format_html('<a href="{}">{}</a>', url, text or item.pk)

    def shown_url(self, webhook: Webhook, url: str = "", *, is_linked: bool = True) -> SafeString:
        """Return the URL of a webhook for a column, or another one, linked to the webhook if it exists."""
        shown: SafeString | str = breakable(Truncator(url or webhook.url).chars(MAX_URL))
        if is_linked and not webhook.is_deleted:
            shown = self.link_to(webhook, shown)
        return format_html('<span class="webhooks-url" title="{}">{}</span>', webhook.pk, shown)

    def webhook_with_url(self, webhook: Webhook, url: str) -> SafeString:
        """Return the ID of a webhook, linked if it exists, and a URL."""
        shown = webhook.pk if webhook.is_deleted else self.link_to(webhook)
        return format_html('{} <span class="webhooks-url">{}</span>', shown, breakable(url))

    def viewed(self, request: HttpRequest, object_id: str) -> Any:
        """Return a row for a part of its page. Raise PermissionDenied, or Http404 if the user may not see it."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        return self.find(request, object_id)

    def find(self, request: HttpRequest, object_id: str) -> Any:
        """Return the row with this quoted key. Raise Http404 if the user may not see it."""
        item = self.get_object(request, unquote(object_id))
        if item is None:
            raise Http404
        return item

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        self.check_query(request)
        return super().changelist_view(request, extra_context)

    def check_query(self, request: HttpRequest) -> None:
        """Raise SuspiciousOperation for a query that some databases cannot run."""
        if any("\0" in text for name, values in request.GET.lists() for text in (name, *values)):
            raise SuspiciousOperation("The query contains NUL, which some databases reject.")

    def to_field_allowed(self, request: HttpRequest, to_field: str) -> bool:
        """Allow only the primary key: Django fails on the name of a reverse relation."""
        return to_field in ("pk", self.opts.pk.name)

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        """Allow only the filters of the list: other lookups would let users guess hidden values bit by bit."""
        return any(lookup == each.name for each in self.listed.filters)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        return self.asked(request, {"q": search_term}).rows(queryset), False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return own_rows(request, super().get_queryset(request), self.listed.owner_path)

    def hides_rows(self, request: HttpRequest) -> bool:
        """Return True if ``get_queryset`` leaves out some rows of the user's owners."""
        return False

    def owner_id_of(self, item: Any) -> Any:
        return item.owner_id if self.listed.owner_path == "owner" else item.webhook.owner_id

    def permits(self, request: HttpRequest, item: Any, access: Access = Access.READ | Access.MANAGE) -> bool:
        """Return True if the owner policy gives the user this access to a row; also without a row."""
        return item is None or access in actor_of(request).access_to(self.owner_id_of(item))

    def may(self, request: HttpRequest, right: Right, item: Any = None) -> bool:
        """Return True if the user has the right for a row, or for some rows if there is none."""
        return actor_of(request).holds(right) and self.permits(request, item, right.access)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_change_permission(request, obj) and self.permits(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_delete_permission(request, obj) and self.permits(request, obj)

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        hidden = _hidden_names(request)
        return [column for column in super().get_list_display(request) if column not in hidden]

    @admin.display(description=_("account"))
    def owner_name(self, item: Any) -> str:
        return owners().label(item.owner) if item.owner is not None else str(self.get_empty_value_display())


def knows_owners(request: HttpRequest) -> bool:
    """Return True if the user sees the rows of more than one owner."""
    return manages_all(request) or len(actor_of(request).owners) > 1


def _hidden_names(request: HttpRequest) -> Sequence[str]:
    if manages_all(request):
        return ()
    return NAMES[1:] if knows_owners(request) else NAMES


def without_names(request: HttpRequest, fields: Sequence[Any]) -> Iterator[Any]:
    """Yield the fields without account names that the user may not see."""
    hidden = _hidden_names(request)
    for field in fields:
        if isinstance(field, tuple):
            yield tuple(name for name in field if name not in hidden)
        elif field not in hidden:
            yield field


class ReadOnlyAdmin(OwnedAdmin):
    """Admin of rows that only the app writes."""

    optional: Mapping[str, str] = {}
    """Fields that a page shows only if the row has a value, with its attribute."""

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        lacking = {name for name, attribute in self.optional.items() if not getattr(obj, attribute, None)}
        return [name for name in without_names(request, super().get_fields(request, obj)) if name not in lacking]

    @admin.display(description=_("ID"))
    def own_id(self, item: Any) -> SafeString:
        return copyable(item.pk, "own-id")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
