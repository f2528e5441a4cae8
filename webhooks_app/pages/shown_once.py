"""Secrets that a page shows once. The POST that creates a secret redirects there, so that a reload creates nothing.

The session holds the encrypted secret under a random token until the page is shown. A message of Django's would remain
readable in a cookie or in the database.

Each form carries a random token too. A form that is sent twice redirects to the same page until the secret is shown:
browsers follow only the last answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from secrets import token_urlsafe
from typing import Any, NamedTuple

from django import forms
from django.http import HttpRequest, HttpResponseRedirect

from ..encryption import decrypt, encrypt
from ..exceptions import SecretUnreadableError

SESSION_KEY = "webhooks_app.shown_once"
SUBMISSION = "submission"
"""Name of the hidden field with the token of a form."""
_STORE = "_webhooks_store"
KEPT_SECONDS = 600
MAX_KEPT = 10


class Kept(NamedTuple):
    """A secret that was not shown yet, as stored in the session."""

    encrypted: str
    expires_at: float
    submission: str
    """The token of the form that created the secret."""
    url: str


def new_submission() -> str:
    """Return the token of a new form."""
    return token_urlsafe(16)


class SubmittedForm(forms.Form):
    """A form that creates a secret."""

    submission = forms.CharField(required=False, widget=forms.HiddenInput, initial=new_submission)


class SessionStore:
    """The part of Django's session that these functions use."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def get(self, name: str) -> Any:
        return self._session.get(name)

    def change(self, name: str, change: Callable[[Any], Any]) -> None:
        """Store a value, made from the present one."""
        self._session[name] = change(self.get(name))


def keep_secrets_in(request: HttpRequest, store: Any) -> None:
    """Keep the secrets of this request in another store with the methods of SessionStore."""
    setattr(request, _STORE, store)


def show_once(request: HttpRequest, secret: str, url_of: Callable[[str], str]) -> HttpResponseRedirect:
    """Redirect to the page that shows a new secret once. ``url_of`` returns its URL for a token."""
    token = token_urlsafe(16)
    url = url_of(token)
    kept = Kept(encrypt(secret), time.time() + KEPT_SECONDS, request.POST.get(SUBMISSION, ""), url)
    _store(request).change(SESSION_KEY, lambda stored: dict([*_valid(stored).items(), (token, kept)][-MAX_KEPT:]))
    return HttpResponseRedirect(url)


def shown_by_first(request: HttpRequest) -> HttpResponseRedirect | None:
    """Redirect a form that was sent before to the page of its secret, if this was not shown yet."""
    submission = request.POST.get(SUBMISSION)
    kept = _valid(_store(request).get(SESSION_KEY)).values()
    urls = (each.url for each in kept if submission and each.submission == submission)
    return next(map(HttpResponseRedirect, urls), None)


def take(request: HttpRequest, token: str) -> str | None:
    """Remove a secret from the session and return it; None if it was already shown or has expired."""
    store = _store(request)
    taken: list[Kept] = []

    def without(stored: Any) -> dict[str, Kept]:
        kept = _valid(stored)
        taken.extend(kept.pop(each) for each in [token] if each in kept)
        return kept

    if token in _valid(store.get(SESSION_KEY)):
        store.change(SESSION_KEY, without)
    if not taken:  # another tab has shown it
        return None
    try:
        return decrypt(taken[0].encrypted)
    except SecretUnreadableError:
        return None


def _store(request: HttpRequest) -> Any:
    return getattr(request, _STORE, None) or SessionStore(request.session)


def _valid(stored: Any) -> dict[str, Kept]:
    """Return the stored secrets that have not expired, by token."""
    kept = {token: Kept(*entry) for token, entry in (stored or {}).items()}
    return {token: entry for token, entry in kept.items() if entry.expires_at > time.time()}
