"""Visits by link: the cookie of the session, its CSRF secret and its messages."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from http.cookies import Morsel
from typing import Any

from django.conf import settings as django_settings
from django.contrib.messages.storage.session import SessionStorage
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.middleware.csrf import CsrfViewMiddleware
from django.template.response import SimpleTemplateResponse
from django.urls import reverse
from django.utils.crypto import salted_hmac
from django.views.decorators.csrf import csrf_protect

from ..models import PortalLink
from ..models.portal_link import SESSION_AGE
from ..operations.portal_links import LinkSession, session_of
from ..pages.shown_once import keep_secrets_in

COOKIE = "webhooks_portal_token"
"""The cookie of a session. Django hides cookies with this word in error reports, even those of other views."""

FRAMES = ("iframe", "frame", "embed", "object")


class Visit:
    """A request with the cookie of a session, which need not be valid."""

    def __init__(self, request: HttpRequest) -> None:
        self._text = request.COOKIES.get(COOKIE, "")
        self.session: LinkSession | None = session_of(self._text) if self._text else None

    @property
    def is_over(self) -> bool:
        return bool(self._text) and self.session is None

    @property
    def csrf_secret(self) -> str | None:
        """The secret of a framed session, which gets no cookie of Django's. It is derived, never stored."""
        if self.session is None or not self.session.link.is_framed:
            return None
        return salted_hmac("webhooks_app.portal.csrf", self._text, algorithm="sha256").hexdigest()[:32]


class LinkStore:
    """The part of Django's session that pages use, kept in the row of a link."""

    def __init__(self, link: PortalLink) -> None:
        self._link = link

    def get(self, name: str) -> Any:
        return self._link.data.get(name)

    def change(self, name: str, change: Callable[[Any], Any]) -> None:
        self._link.keep(name, change)


class LinkMessages(SessionStorage):
    """Messages of a session. A frame gets none of the cookies that Django's storages need."""

    def __init__(self, request: HttpRequest, store: LinkStore) -> None:
        super().__init__(request)
        self._kept = store

    def _get(self, *args: Any, **kwargs: Any) -> tuple[list[Any], bool]:
        return self.deserialize_messages(self._kept.get(self.session_key)) or [], True

    def _store(self, messages: list[Any], response: Any, *args: Any, **kwargs: Any) -> list[Any]:
        value = self.serialize_messages(messages) if messages else None
        if value != self._kept.get(self.session_key):
            self._kept.change(self.session_key, lambda stored: value)
        return []


def begin(request: HttpRequest, session: LinkSession) -> None:
    """Keep the secrets and messages of this request in the session of the link."""
    store = LinkStore(session.link)
    keep_secrets_in(request, store)
    if hasattr(request, "_messages"):  # django.contrib.messages is installed
        request._messages = LinkMessages(request, store)  # noqa: SLF001 - only the setting of all pages chooses a storage publicly


class _OwnCsrf(CsrfViewMiddleware):
    """Django's check, with a secret that is in none of Django's cookies."""

    def __init__(self, secret: str) -> None:
        super().__init__(lambda request: HttpResponse())
        self._secret = secret

    def _get_secret(self, request: HttpRequest) -> str:
        """Override Django's private method: publicly, a secret comes from a cookie or the session of all pages."""
        return self._secret


def with_csrf(
    request: HttpRequest, secret: str | None, answer: Callable[[HttpRequest], HttpResponseBase]
) -> HttpResponseBase:
    """Return the answer after Django's CSRF check, with its own secret or with this one, also for ``csrf_token``."""
    if secret is None:
        return csrf_protect(answer)(request)
    request.META["CSRF_COOKIE"] = secret
    response = _OwnCsrf(secret).process_view(request, answer, (), {}) or answer(request)
    if isinstance(response, SimpleTemplateResponse):
        response.add_post_render_callback(lambda rendered: _send_no_cookie(request))
    _send_no_cookie(request)
    return response


def _send_no_cookie(request: HttpRequest) -> None:
    """Prevent Django's middleware from sending the secret in its own cookie, as for every token in a template."""
    request.META["CSRF_COOKIE_NEEDS_UPDATE"] = False


def is_framed(request: HttpRequest) -> bool:
    """Return True for the page of a frame. Browsers send the header over HTTPS and from the loopback interface."""
    return request.headers.get("Sec-Fetch-Dest") in FRAMES


class PartitionedMorsel(Morsel[str]):
    """A cookie with the attribute ``Partitioned``, which Python knows from version 3.14 on."""

    def OutputString(self, attrs: Any = None) -> str:  # noqa: N802 - as in Python
        return f"{super().OutputString(attrs)}; Partitioned"


def set_cookie(response: HttpResponse, request: HttpRequest, name: str, value: str, *, is_framed: bool) -> None:
    """Set a cookie of a link. That of a frame is sent only within the same site around it."""
    response.set_cookie(
        name,
        value,
        max_age=SESSION_AGE if value else timedelta(0),
        path=reverse("webhooks_portal:accounts"),
        secure=is_framed or request.is_secure() or django_settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="None" if is_framed else "Lax",
    )
    if is_framed:
        plain, cookie = response.cookies[name], PartitionedMorsel()
        cookie.set(plain.key, plain.value, plain.coded_value)
        cookie.update({key: each for key, each in plain.items() if each})
        response.cookies[name] = cookie
