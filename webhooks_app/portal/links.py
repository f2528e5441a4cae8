"""Links to the customers' pages: their URL, and the page that opens one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import timedelta
from secrets import token_hex
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..models import PortalLink
from ..operations.portal_links import LinkSession, create_link, end, open_link, path_of, revoke_links, usable
from ..owners import Access, owners
from .base import SafePage
from .visits import COOKIE, is_framed, set_cookie, with_csrf

__all__ = ["EndPage", "LinkPage", "portal_url", "revoke_portal_links"]

PROBE = "webhooks_portal_probe_token"
"""A cookie that shows whether the browser returns cookies, before the link is used up. It is the CSRF secret too."""

PROBE_LENGTH = 32

LINK_TEXT = re.compile(r"lnk_[0-9a-f]{32}:[\w-]{43}(?![\w-])")
FROM_TEXT_ON = re.compile(r"lnk_[\s\S]*")
"""A link, whole or damaged, with all that follows in a path or a header."""

NO_LONGER_VALID = _(
    "This link is no longer valid. Each link can be opened once, within a short time. Ask for a new one."
)
NO_COOKIES = _("Your browser returns no cookies here, which these pages need. Open them in a new tab.")
LEFT = _("You have left the pages. To return, ask for a new link.")


def portal_url(
    owner: Any,
    user: Any = None,
    rights: Iterable[str] = ("read",),
    expires: timedelta = timedelta(minutes=15),
    page: str = "",
) -> str:
    """Return the path of a new link to the customers' pages of an owner, which opens them once, for an hour.

    ``rights`` are any of ``"read"``, ``"manage"`` and ``"secrets"``. The first is always included. With a ``user``,
    visitors may never do more than the owner policy permits this user at that moment. ``page`` is the path of the first
    page below the overview, such as ``"deliveries/"``.

    Raise InvalidOwnerError for an owner that is not saved, and ValueError for any other argument. Pass the result to
    ``request.build_absolute_uri`` for a mail, or for a frame on another host.
    """
    return path_of(create_link(owner, user=user, rights=rights, expires=expires, page=page))


def revoke_portal_links(owner: Any = None, user: Any = None) -> int:
    """End the links of an owner, a user or both, or all links, with the sessions that they opened.

    Returns the number of links. A request that has begun ends as usual.
    """
    return revoke_links(owner, user)


class LinkPage(SafePage):
    """The page of a link, with a button: programs that open links from mails use none up."""

    template_name = "webhooks_app/portal/link.html"

    def setup(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        super().setup(request, *args, **kwargs)
        link = LINK_TEXT.search(kwargs["token"])  # mail programs may add characters after the link
        self.text = link[0] if link else ""
        self.address = reverse("webhooks_portal:link", args=(self.text,)) if self.text else ""
        # Django's log and error reports have the path of a refused request, where others could read an unopened link.
        request.META = {
            name: value if name == "HTTP_COOKIE" else _masked(value) for name, value in request.META.items()
        }
        request.path, request.path_info = _masked(request.path), _masked(request.path_info)

    def serves(self, session: LinkSession) -> bool:
        return True

    def may_be_framed(self) -> bool:
        return True

    def guarded(self, answer: Callable[[HttpRequest], HttpResponseBase]) -> HttpResponseBase:
        response = self._guarded(answer)
        # With this policy a Referer has only the host. With `no-referrer`, the form would lose its Origin, too.
        response.headers["Referrer-Policy"] = "strict-origin"
        response.headers["X-Robots-Tag"] = "noindex"
        return response

    def _guarded(self, answer: Callable[[HttpRequest], HttpResponseBase]) -> HttpResponseBase:
        if not self.text:
            return self.closed(NO_LONGER_VALID, status=404)
        given = self.request.COOKIES.get(PROBE, "")
        self.probe = given if len(given) == PROBE_LENGTH and given.isascii() and given.isalnum() else ""
        if self.request.method == "POST" and not self.probe:
            return self.closed(NO_COOKIES, new_tab=self.address)
        self.probe = self.probe or token_hex(PROBE_LENGTH // 2)
        return with_csrf(self.request, self.probe, answer)

    def admitted(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        return self.answer(request, *args, **kwargs)

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        link = PortalLink.objects.with_text(self.text)
        if link is not None and self.link is not None and self.link.link.pk == link.pk:
            return HttpResponseRedirect(first_page(link))
        session = usable(link) if link is not None and link.opened_at is None else None
        if session is None:
            return self.closed(NO_LONGER_VALID, status=404)
        response = self.render_to_response(self._context(session))
        set_cookie(response, request, PROBE, self.probe, is_framed=is_framed(request))
        return response

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        link = PortalLink.objects.with_text(self.text)
        if link is None or usable(link) is None:
            return self.closed(NO_LONGER_VALID, status=404)
        session = open_link(link, is_framed=is_framed(request))
        if session is None:  # a second click, whose browser has the session of the first one
            return HttpResponseRedirect(self.address)
        response = HttpResponseRedirect(first_page(link))
        set_cookie(response, request, COOKIE, session, is_framed=is_framed(request))
        return response

    def _context(self, session: LinkSession) -> dict[str, Any]:
        owner = owners().label(session.owner)
        return self.get_context_data(
            title=_("Open the webhooks of %(owner)s") % {"owner": owner},
            sentences=[scope_of(session.access), _("This link opens the pages once, for an hour.")],
            submit=_("Open"),
            new_tab=self.address if is_framed(self.request) else "",
            link_session=None,  # another visit, whose button to leave has another CSRF secret
        )


class EndPage(SafePage):
    """The end of a visit by link."""

    http_method_names = ("post",)

    def serves(self, session: LinkSession) -> bool:
        return True

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if self.link is not None:
            end(self.link)
        response = self.closed(LEFT, status=200)
        set_cookie(response, request, COOKIE, "", is_framed=is_framed(request))
        return response


def _masked(value: Any) -> Any:
    return FROM_TEXT_ON.sub("lnk_…", value) if isinstance(value, str) else value


def first_page(link: PortalLink) -> str:
    return reverse("webhooks_portal:overview", args=(link.owner_id,)) + link.path


def scope_of(access: Access) -> str:
    """Return in words what the visitor of a link may do."""
    if Access.MANAGE not in access:
        return gettext("You can see the webhooks, but not change them.")
    if Access.SECRETS not in access:
        return gettext("You can see and change the webhooks, but not create any, and see no new secrets.")
    return gettext("You can see and change the webhooks, and create webhooks and API keys.")
