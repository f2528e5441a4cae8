"""The search of the console: identifiers and their beginnings, references, URLs and accounts, from one field."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from django.contrib.admin.utils import display_for_field, display_for_value, lookup_field
from django.core.exceptions import PermissionDenied
from django.db.models import Model, Q
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern
from django.utils.text import capfirst
from django.utils.translation import gettext

from ..models import ApiKey, AuditEntry, Delivery, Event, EventReference, Problem, Replay, Webhook
from ..models.event import MAX_REFERENCE_LENGTH
from ..models.keyset import WHOLE, read_page
from ..owners import owners
from ..pages.display import moment
from ..pages.lists import MODELS
from ..transport.endpoint import MAX_URL_LENGTH
from .display import page_of
from .owned import OwnedAdmin, knows_owners, own_ids, own_rows

MAX_HITS = 20
"""Results shown of each kind."""

MIN_URL_PART = 3
"""Fewest characters by which the parts of a URL are searched."""

ID_DIGITS = 32

DETAILS: Mapping[type[Model], tuple[str, ...]] = {
    Webhook: ("target", "state", "owner_name"),
    Event: ("id", "type_and_kind", "owner_name"),
    Delivery: ("id", "type_and_kind", "state_and_answer"),
    Replay: ("id", "target", "state"),
    Problem: ("id", "cause", "state_shown"),
    ApiKey: ("prefix", "name", "owner_name"),
    AuditEntry: ("id", "action", "owner_name"),
}
"""The columns of the lists that describe a result. The first one is its link."""

_ID = re.compile(r"([a-z]{2,3})_([0-9a-f]{1,34})", re.ASCII)
_KEY = re.compile(r"whk_([0-9a-f]{1,12})(?:_.*)?", re.ASCII)


def searches(text: str, owner_ids: Collection[Any] | None) -> Iterator[tuple[type[Model], Q]]:
    """Yield the models to search for a text, each with the condition of its rows."""
    found_id = _ID.fullmatch(text.lower())
    # An attempt's identifier begins with the digits of its delivery.
    prefix = found_id[1].replace("att", "dlv") if found_id else ""
    if found_id and prefix in MODELS:
        digits = found_id[2][:ID_DIGITS]
        first, last = (f"{prefix}_{digits.ljust(ID_DIGITS, digit)}" for digit in "0f")
        yield MODELS[prefix], Q(pk__gte=first, pk__lte=last)
    elif found_key := _KEY.fullmatch(text):
        yield ApiKey, Q(prefix__startswith=found_key[1])
    else:
        if len(text) >= MIN_URL_PART:
            yield Webhook, Q(url__icontains=text)
        if len(text) <= MAX_REFERENCE_LENGTH:
            yield Event, Q(pk__in=EventReference.newest_events(text, owner_ids))


class SearchHit(NamedTuple):
    """A search result: a link, and the details that distinguish it."""

    url: str
    text: str
    details: Sequence[str]
    at: str = ""


class SearchHits(NamedTuple):
    """The results of one kind, at most ``MAX_HITS``."""

    kind: str
    hits: list[SearchHit]
    has_more: bool


class SearchPage(OwnedAdmin):
    """Mixin for the admin of webhooks. Each kind is searched within the rows that the user may view."""

    def get_urls(self) -> list[URLPattern]:
        return [self.own_path("search/", self.search_view, "search"), *super().get_urls()]

    def search_view(self, request: HttpRequest) -> HttpResponse:
        """Show what was found for ``q``, or go to the only result."""
        if not any(self._admin_of(request, model) for model in MODELS.values()):
            raise PermissionDenied
        text = request.GET.get("q", "").replace("\0", "").strip()[:MAX_URL_LENGTH]
        hits = [each for each in self._found(request, text) if each.hits] if text else []
        if sum(len(each.hits) for each in hits) == 1:
            return HttpResponseRedirect(hits[0].hits[0].url)
        return page_of(self, request, "webhook/search", title=gettext("Search"), searched=text, found=hits)

    def _found(self, request: HttpRequest, text: str) -> Iterator[SearchHits]:
        for model, condition in searches(text, own_ids(request)):
            if admin := self._admin_of(request, model):
                rows = admin.get_queryset(request).filter(condition)
                related = admin.list_select_related
                rows = rows.select_related(*related) if related else rows
                parts = admin.asked(request, {}).parts
                page = read_page(rows, parts=WHOLE if parts.are_too_many else parts, size=MAX_HITS)
                shown = [self._hit(request, admin, row) for row in page.rows]
                yield SearchHits(capfirst(admin.opts.verbose_name_plural), shown, page.older is not None)
        if knows_owners(request) and (admin := self._admin_of(request, Webhook)):
            visible = own_rows(request, owners().found(text), "pk")[: MAX_HITS + 1]
            hits = [self._hit_of_owner(owner) for owner in visible]
            yield SearchHits(gettext("Accounts"), hits[:MAX_HITS], len(hits) > MAX_HITS)

    def _admin_of(self, request: HttpRequest, model: type[Model]) -> Any:
        """Return the admin of a model, or None if there is none or the user may not view its rows."""
        if not self.admin_site.is_registered(model):
            return None
        admin = self.admin_site.get_model_admin(model)
        return admin if admin.has_view_permission(request) else None

    def _hit(self, request: HttpRequest, admin: Any, row: Any) -> SearchHit:
        url = self.url(f"{row._meta.model_name}_change", row.pk)
        # Lists hide the names of accounts from some users.
        shown = {"id", *admin.get_list_display(request)}
        text, *details = [_value(name, row, admin) for name in DETAILS[type(row)] if name in shown]
        return SearchHit(url, text, details, moment(row.created_at))

    def _hit_of_owner(self, owner: Any) -> SearchHit:
        url = self.url("webhook_changelist", owner=str(owner.pk))
        return SearchHit(url, owners().label(owner), [gettext("Webhooks of this account")])


def _value(name: str, row: Model, admin: Any) -> str:
    field, _, value = lookup_field(name, row, admin)
    return display_for_field(value, field, "") if field else display_for_value(value, "")
