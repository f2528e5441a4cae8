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


def keep_secrets_in(request: HttpRequest, store: Any) -> None:
    """Use another store than the session of Django, with the same access by key, for the secrets of this request."""
    setattr(request, _STORE, store)


def show_once(request: HttpRequest, secret: str, url_of: Callable[[str], str]) -> HttpResponseRedirect:
    """Redirect to the page that shows a new secret once. ``url_of`` returns its URL for a token."""
    token = token_urlsafe(16)
    url = url_of(token)
    kept = Kept(encrypt(secret), time.time() + KEPT_SECONDS, request.POST.get(SUBMISSION, ""), url)
    _store(request)[SESSION_KEY] = dict([*_kept(request).items(), (token, kept)][-MAX_KEPT:])
    return HttpResponseRedirect(url)


def shown_by_first(request: HttpRequest) -> HttpResponseRedirect | None:
    """Redirect a form that was sent before to the page of its secret, if this was not shown yet."""
    submission = request.POST.get(SUBMISSION)
    urls = (kept.url for kept in _kept(request).values() if submission and kept.submission == submission)
    return next(map(HttpResponseRedirect, urls), None)


def take(request: HttpRequest, token: str) -> str | None:
    """Remove a secret from the session and return it; None if it was already shown or has expired."""
    kept = _kept(request)
    found = kept.pop(token, None)
    if found is None:
        return None
    _store(request)[SESSION_KEY] = kept
    try:
        return decrypt(found.encrypted)
    except SecretUnreadableError:
        return None


def _store(request: HttpRequest) -> Any:
    return getattr(request, _STORE, None) or request.session


def _kept(request: HttpRequest) -> dict[str, Kept]:
    """Return the secrets in the session that have not expired, by token."""
    stored = _store(request).get(SESSION_KEY, {})
    kept = {token: Kept(*entry) for token, entry in stored.items()}
    return {token: entry for token, entry in kept.items() if entry.expires_at > time.time()}
