"""Shared behaviour of all pages: the account, the rights of the user, and the headers of the answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple
from urllib.parse import urlencode
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.conf import settings as django_settings
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.functional import SimpleLazyObject
from django.utils.translation import gettext_lazy as _
from django.views.decorators.csrf import csrf_exempt
from django.views.generic import FormView, TemplateView

from ..conf import settings
from ..database.sql import current
from ..error_reports import hide_values
from ..exceptions import InvalidOwnerError
from ..models import Delivery, Webhook
from ..models.keyset import Cursor, Page
from ..operations.actors import Member, access_of
from ..operations.portal_links import LinkSession, is_page
from ..operations.rights import CREATE_KEY, REGISTER_WEBHOOK, UPDATE_WEBHOOK, VIEW_WEBHOOKS, Right
from ..owners import Access, event_types_for, owners, parse_key
from ..pages.actions import UserAction
from ..pages.filters import FilterForm
from ..pages.forms import REFUSALS, add_errors, as_form_error
from ..pages.listing import Asked, RowList
from ..pages.lists import type_choices
from ..pages.shown_once import shown_by_first
from .visits import Visit, begin, is_framed, with_csrf

__all__ = ["AccountPage", "FormPage", "SafePage", "WebhookFormPage"]

if TYPE_CHECKING:
    BaseFormView = FormView[Any]
else:
    BaseFormView = FormView

MAX_ACCOUNTS = 50
"""The largest number of accounts that a user can choose from. Others are reached by their URL."""

PER_PAGE = 50

ZONE_COOKIE = "webhooks_timezone"
ZONE_NAME = re.compile(r"[A-Za-z0-9_+-]{1,30}(/[A-Za-z0-9_+-]{1,30}){0,2}")

NONE = "'none'"
SELF = "'self'"

ENDED = _("Your visit to these pages has ended. Ask for a new link, or log in.")


class Account(NamedTuple):
    """An owner for whom the user may see these pages."""

    owner: Any
    access: Access

    @property
    def key(self) -> str:
        return str(self.owner.pk)

    @property
    def label(self) -> str:
        return owners().label(self.owner)


def visible_accounts(user: Any, key: str | None = None) -> list[Account]:
    """Return the accounts whose pages the user may read; only the one with this primary key, if given."""
    rows = current(owners().visible_to(user))
    try:
        visible = list(rows.order_by("pk")[:MAX_ACCOUNTS] if key is None else rows.filter(pk=parse_key(key)))
    except (InvalidOwnerError, OverflowError):  # not a key, or a number that SQLite cannot hold
        return []
    access = access_of(user, visible)
    return [Account(owner, access[owner.pk]) for owner in visible if Access.READ in access[owner.pk]]


def in_zone_of(request: HttpRequest) -> AbstractContextManager[Any]:
    """Return a context in the reader's time zone, which the script of the pages stores in a cookie.

    Without the cookie, and if the project has activated a zone for the user, the zone does not change.
    """
    name = request.COOKIES.get(ZONE_COOKIE, "")
    is_chosen = hasattr(timezone._active, "value")  # type: ignore[attr-defined]  # noqa: SLF001 - the zone alone tells not who chose it
    if is_chosen or not django_settings.USE_TZ or not ZONE_NAME.fullmatch(name):
        return nullcontext()
    try:
        return timezone.override(ZoneInfo(name))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return nullcontext()


class ZonedResponse(TemplateResponse):
    """A response that is rendered in the reader's time zone."""

    @property
    def rendered_content(self) -> str:
        with in_zone_of(self._request):
            return super().rendered_content


def harden(response: HttpResponseBase, *, may_be_framed: bool) -> None:
    """Add the headers of all pages. Without a policy of ours, nothing would limit the sites of a frame."""
    ancestors = settings.PORTAL_FRAME_ANCESTORS if may_be_framed and settings.PORTAL_CSP else NONE
    response.headers["Cache-Control"] = "no-store, private"
    response.headers.setdefault("Referrer-Policy", "same-origin")
    if settings.PORTAL_CSP:
        response.headers["Content-Security-Policy"] = f"{settings.PORTAL_CSP}; frame-ancestors {ancestors}"
    if ancestors in (NONE, SELF):
        response.headers["X-Frame-Options"] = "DENY" if ancestors == NONE else "SAMEORIGIN"
    else:  # The header cannot name an origin, and Django's middleware would refuse them all.
        response.xframe_options_exempt = True  # type: ignore[attr-defined]


class SafePage(TemplateView):
    """A page for users who are logged in, and for visitors by link, with strict headers."""

    response_class = ZonedResponse
    title: Any = ""
    link: LinkSession | None = None
    """The session of a visitor by link; None for a user who is logged in."""
    is_closed = False
    requires_login = True
    http_method_names: Sequence[str] = ("get", "head", "post")  # Django's forms would take PUT for POST

    # `with_csrf` makes Django's check, because a frame has a secret of its own, and `admitted` asks for the login.
    # LoginRequiredMiddleware would send visitors by link to it, with the link in the URL.
    @method_decorator([csrf_exempt, login_not_required])
    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        hide_values(request)
        _refuse_nul(request)
        self.visit = Visit(request)
        if self.visit.session is not None and self.serves(self.visit.session):
            self.link = self.visit.session
            begin(request, self.link)
        with in_zone_of(request):
            response = self.guarded(lambda request: self.admitted(request, *args, **kwargs))
        harden(response, may_be_framed=self.may_be_framed())
        return response

    def serves(self, session: LinkSession) -> bool:
        """Return True if the page belongs to the owner of this link. Others belong to the user who is logged in."""
        return str(self.kwargs.get("owner")) == str(session.owner.pk)

    def may_be_framed(self) -> bool:
        return self.is_closed or (self.link is not None and self.link.link.is_framed)

    def guarded(self, answer: Callable[[HttpRequest], HttpResponseBase]) -> HttpResponseBase:
        """Return the answer, or the refusal of a POST without its token."""
        return with_csrf(self.request, self.visit.csrf_secret if self.link else None, answer)

    def admitted(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Return the answer to a visitor by link or a user, and send others to the login."""
        if self.link or not self.requires_login or request.user.is_authenticated:
            return self.answer(request, *args, **kwargs)
        if self.visit.session:
            raise Http404
        if self.visit.is_over or is_framed(request):
            path = request.get_full_path()
            if is_framed(request):
                return self.closed(ENDED, new_tab=path)
            with suppress(NoReverseMatch):  # a project whose customers come by links alone may have no login
                return self.closed(ENDED, login_url=redirect_to_login(path).url)
            return self.closed(ENDED)
        return redirect_to_login(request.get_full_path())

    def closed(self, reason: Any, *, status: int = 403, new_tab: str = "", login_url: str = "") -> HttpResponse:
        """Return a page without anything of an account."""
        self.is_closed = True
        context = {"title": _("Webhooks"), "sentences": [reason], "new_tab": new_tab, "login_url": login_url}
        return TemplateResponse(self.request, "webhooks_app/portal/link.html", context, status=status)

    def accounts(self, key: str | None = None) -> list[Account]:
        """Return the accounts whose pages the visitor may read; only the one with this primary key, if given."""
        if self.link is not None:
            return [Account(self.link.owner, self.link.access)]
        return visible_accounts(self.request.user, key)

    def answer(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        return super().dispatch(request, *args, **kwargs)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(**{"title": self.title, "link_session": self.link, **kwargs})


class AccountPage(SafePage):
    """A page about one account, whose primary key is in the URL.

    The answer to the key of another account is the same as to an invented key, and so are those to other identifiers.
    """

    section = ""
    """The entry of the navigation that is current."""
    right: ClassVar[Right] = VIEW_WEBHOOKS
    """The right that the page requires. Operations check the right of each action again."""
    is_live = False
    """Whether the open page reads itself again, and replaces its parts."""
    is_shareable = True
    """Whether another person can open the page with its address."""

    def answer(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        accounts = self.accounts(kwargs["owner"])
        if not accounts:
            raise Http404
        (self.account,) = accounts
        try:
            self.actor.require(self.right, self.owner.pk)
            return super().answer(request, *args, **kwargs)
        except PermissionDenied as error:
            return self.refused(_("Not permitted"), str(error), status=403)
        except Http404:
            if not self.may_be_framed():
                raise
            # No site may frame the project's own page for this.
            return self.refused(_("Not found"), _("There is no such page, or it no longer exists."), status=404)

    def refused(self, title: Any, reason: Any, *, status: int) -> HttpResponse:
        context = self.page_context() | {"title": title, "reason": reason, "live_url": "", "share_url": ""}
        return TemplateResponse(self.request, "webhooks_app/portal/refused.html", context, status=status)

    @property
    def owner(self) -> Any:
        return self.account.owner

    @cached_property
    def actor(self) -> Member:
        """The visitor as an actor of operations, with the access of this request."""
        if self.link is not None:
            return self.link.actor
        return Member(account=self.request.user, owner=self.owner, access=self.account.access)

    def may(self, right: Right) -> bool:
        return self.actor.may(right, self.owner.pk)

    def url(self, name: str, *args: str) -> str:
        """Return the URL of another page of the account."""
        return reverse(f"webhooks_portal:{name}", args=(self.account.key, *args))

    def delivery_url(self, pk: str) -> str:
        return self.url("delivery", pk)

    def deliveries_url(self, **query: str) -> str:
        """Return the URL of the list of deliveries, filtered by the query."""
        return reverse("webhooks_portal:deliveries", args=(self.account.key,), query=query)

    def find(self, rows: QuerySet[Any], pk: str) -> Any:
        """Return the account's row with this identifier, or answer 404."""
        return get_object_or_404(rows.owned_by(self.owner).for_owner(), pk=pk)  # type: ignore[attr-defined]

    def find_webhook(self) -> Webhook:
        webhook: Webhook = self.find(Webhook.objects.existing().select_related("health", "lane"), self.kwargs["pk"])
        return webhook

    def find_delivery(self, pk: str) -> Delivery:
        delivery: Delivery = self.find(Delivery.objects.with_related(), pk)
        return delivery

    def page_context(self) -> dict[str, Any]:
        """Return the context of all pages of the account."""
        return {
            "account": self.account,
            "accounts": SimpleLazyObject(self.accounts),  # looked for only by a visit
            "is_visit": self.request.headers.get("X-Requested-With") != "fetch",
            "live_url": self.request.get_full_path() if self.is_live else "",
            "link_session": self.link,
            "section": self.section,
            "share_url": self._share_url() if self.is_shareable else "",
            "may_manage": self.may(UPDATE_WEBHOOK),
            "may_register": self.may(REGISTER_WEBHOOK),
            "may_create_key": self.may(CREATE_KEY),
        }

    def _share_url(self) -> str:
        page = self.request.get_full_path().removeprefix(self.url("overview"))
        return f"{self.url('share')}?{urlencode({'page': page})}" if is_page(self.owner, page) else ""

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(**{**self.page_context(), **kwargs})

    def perform(self, action: UserAction, row: Any, **given: Any) -> Any:
        """Perform an action on a row, and show what was done, or the reason of a refusal, on the next page.

        Return the operation's result, or None after a refusal.
        """
        assert action.operation is not None
        try:
            result = action.operation(row, actor=self.actor, **given)
        except REFUSALS as error:
            messages.error(self.request, " ".join(as_form_error(error).messages), fail_silently=True)
            return None
        if action.done:
            messages.success(self.request, str(action.done), fail_silently=True)
        return result


class ShownChip(NamedTuple):
    label: Any
    query: str
    number: str
    """Empty if it is not known."""
    is_chosen: bool


class ListPage(AccountPage):
    """A page with one of the account's lists, and its filters."""

    is_live = True
    listed: ClassVar[RowList]

    def rows(self) -> Any:
        """Return all rows of the list, as the account may see them."""
        raise NotImplementedError

    def hides_rows(self) -> bool:
        """Return True if ``rows`` has not all of the account's."""
        return False

    def shown(self, page: Page) -> dict[str, Any]:
        """Return the context of the rows."""
        raise NotImplementedError

    def suggestions(self) -> dict[str, Any]:
        """Return the choices of filters that depend on the account."""
        return type_choices(self.listed, event_types_for(self.owner))

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        filters = [each for each in self.listed.filters if each.name != "owner"]
        form = FilterForm(self.request.GET, filters=filters, suggestions=self.suggestions(), label_suffix="")
        values = form.cleaned_data if form.is_valid() else {}
        asked = Asked(self.listed, values, owner_ids=[self.owner.pk], hides_rows=self.hides_rows())
        page = self._page(asked) if form.is_valid() else Page(rows=[])
        fields = [field for field in form.visible_fields() if field.name not in self.listed.bar]
        context = {
            "form": form,
            "bar": [form[name] for name in self.listed.bar],
            "more": fields,
            "has_more": any(each.errors or (each.data and each.name not in self.listed.chip_names) for each in fields),
            "chips": list(self._chips(asked, page)),
            "is_cut_short": page.is_cut_short,
            **links_of(self.request, page),
        }
        return super().get_context_data(**context, **self.shown(page), **kwargs)

    def _page(self, asked: Asked) -> Page:
        return asked.page(self.rows(), cursor=cursor_of(self.request), size=PER_PAGE)

    def _chips(self, asked: Asked, page: Page) -> Iterator[ShownChip]:
        """Yield the choices above the list. They are not counted if the page has read many rows already."""
        rows = self.rows()
        for chip in self.listed.chips:
            query = self.request.GET.copy()
            for name in (*self.listed.chip_names, "cursor"):
                query.pop(name, None)
            query.update(chip.values)
            number = "" if page.is_cut_short else asked.number_of(chip, rows)
            yield ShownChip(chip.label, query.urlencode(), number, asked.is_chosen(chip))


class FormPage(AccountPage, BaseFormView):
    """A page with a form for an operation, whose refusal is shown on the form."""

    submit: Any = _("Save")
    is_shareable = False
    back = ""
    """The name of the page to which "Cancel" leads."""

    @property
    def cancel_url(self) -> str:
        return self.url(self.back)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(**{"submit": self.submit, "cancel_url": self.cancel_url, **kwargs})

    def get_form_kwargs(self) -> dict[str, Any]:
        return {**super().get_form_kwargs(), "label_suffix": ""}

    def form_valid(self, form: Any) -> HttpResponse:
        try:
            return self.carry_out(form)
        except REFUSALS as error:
            add_errors(form, error)
            return self.form_invalid(form)

    def carry_out(self, form: Any) -> HttpResponse:
        """Perform the operation and return the answer."""
        raise NotImplementedError


class SecretFormPage(FormPage):
    """A page with a form that creates a secret. The same form sent twice creates one."""

    def post(self, request: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        return shown_by_first(request) or super().post(request, *args, **kwargs)


class OfWebhook(AccountPage):
    """A page about one webhook."""

    section = "webhooks"

    @cached_property
    def webhook(self) -> Webhook:
        return self.find_webhook()


class WebhookFormPage(OfWebhook, FormPage):
    """A page with a form about one webhook."""

    @property
    def cancel_url(self) -> str:
        return self.url("webhook", self.webhook.pk)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(**{"subject": self.webhook.url, **kwargs})


def cursor_of(request: HttpRequest) -> Cursor | None:
    """Return the position of a list's page; None for the first page, and for a position that nobody linked."""
    return Cursor.parsed(request.GET.get("cursor", ""))


def links_of(request: HttpRequest, page: Page) -> dict[str, str]:
    """Return the queries of the links to the adjacent pages; "" without one."""
    return {name: _with_cursor(request, getattr(page, name)) for name in ("newer", "older")}


def _with_cursor(request: HttpRequest, cursor: Cursor | None) -> str:
    if cursor is None:
        return ""
    query = request.GET.copy()
    query["cursor"] = str(cursor)
    return f"?{query.urlencode()}"


def _refuse_nul(request: HttpRequest) -> None:
    given = (*request.GET.lists(), *request.POST.lists(), ("", [request.path]))
    if any("\0" in text for name, values in given for text in (name, *values)):
        raise SuspiciousOperation("The request contains NUL, which some databases reject.")
