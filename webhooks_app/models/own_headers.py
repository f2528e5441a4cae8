"""Custom headers of a webhook's requests. Their values are encrypted and never shown.

Names are tokens (RFC 9110, 5.6.2), values are printable ASCII.
"""

from __future__ import annotations

import base64
import hashlib
import re
import unicodedata
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, TypeAlias, cast

from django.core.exceptions import ValidationError
from django.db import models
from django.utils.translation import gettext, gettext_noop
from django.utils.translation import gettext_lazy as _

from ..conf import known_signatures
from ..encryption import decrypt, encrypt
from ..exceptions import InvalidEndpointError, SecretUnreadableError
from ..tracing import TRACE_HEADERS
from ..transport.endpoint import ANYWHERE, parse_endpoint
from .base import BaseModel

MAX_HEADER_NAME = 100
MAX_VALUE_LENGTH = 4096

RESERVED_NAMES = frozenset(
    (
        *("host", "content-length", "transfer-encoding", "te", "trailer", "expect"),  # framing
        *("connection", "keep-alive", "upgrade", "http2-settings"),  # hop-by-hop
        *("accept", "accept-encoding", "content-type", "content-encoding", "user-agent"),  # set by the service
        *TRACE_HEADERS,
    )
)
RESERVED_PREFIXES = ("proxy-", "x-webhook-", "webhook-")

_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VALUE = re.compile(r"[!-~](?:[ -~]*[!-~])?")

BASIC = "Basic "

MAX_HEADERS = 20
MAX_QUOTED_NAME = 100
AUTHORIZATION = "Authorization"

REDACTED = "********"
"""Shown in place of every value. As an input, it keeps the stored value."""

EncryptedHeaders: TypeAlias = list[list[str]]
"""Pairs of a name and an encrypted value."""


class _Unchanged:
    """The value for credentials absent from a request."""


UNCHANGED = _Unchanged()
Credentials: TypeAlias = tuple[str | None, str | None] | _Unchanged | None
"""A user name and a password. None in place of one of them keeps the stored one."""


class OwnHeaders(BaseModel):
    """A mixin for webhooks with custom headers."""

    encrypted_headers = models.JSONField(_("headers"), default=list, editable=False)
    pending_headers = models.JSONField(default=list, editable=False)
    """The same for the pending URL of the webhook."""

    if TYPE_CHECKING:
        url: str

    class Meta:
        abstract = True

    @property
    def headers(self) -> dict[str, str]:
        """The headers by name, with redacted values."""
        return {name: REDACTED for name, _ in self.encrypted_headers}

    @property
    def header_fingerprints(self) -> list[str] | None:
        """The names with a fingerprint of the encrypted value, or None without headers."""
        return [f"{name} ({_fingerprint(token)})" for name, token in self.encrypted_headers] or None

    def set_headers(
        self,
        headers: Mapping[str, str] | None = None,
        basic_auth: Credentials = UNCHANGED,
        *,
        url_before: str | None = None,
    ) -> None:
        """Replace the headers, unless None, and then the credentials of basic authentication (None removes them).

        ``url_before`` is the URL for which the values were stored. They are dropped if its scheme, host or port
        differs. Raise ValidationError for invalid headers or credentials.
        """
        stored = self.encrypted_headers if url_before is None or is_same_origin(url_before, self.url) else []
        changed = stored if headers is None else _encrypted(headers, stored)
        if not isinstance(basic_auth, _Unchanged):
            given = (headers or {}).items()
            if any(name.lower() == "authorization" and value != REDACTED for name, value in given):
                raise ValidationError({"basic_auth": _("Give either basic_auth or the header Authorization.")})
            has_lost = not stored and any(name.lower() == "authorization" for name, _ in self.encrypted_headers)
            changed = _with_credentials(changed, stored, _completed(basic_auth, stored, has_lost=has_lost))
        if len(changed) > MAX_HEADERS:
            raise ValidationError({"headers": _("Give at most %(limit)d headers.") % {"limit": MAX_HEADERS}})
        self.encrypted_headers = changed


def is_same_origin(first: str, second: str) -> bool:
    """Return True if two URLs are equal, or valid with the same scheme, host and port."""
    if first == second:
        return True
    try:
        origins = {parse_endpoint(url, allow_http=True, allowed_networks=ANYWHERE).origin for url in (first, second)}
    except InvalidEndpointError:
        return False
    return len(origins) == 1


def _encrypted(headers: Mapping[str, str], stored: EncryptedHeaders) -> EncryptedHeaders:
    reserved = {name.lower() for scheme in known_signatures().values() for name in scheme.header_names}
    known = {name.lower(): token for name, token in stored}
    found: dict[str, list[str]] = {}
    for name, value in headers.items():
        problem = problem_with_name(name, reserved)
        if not problem and name.lower() in found:
            problem = gettext_noop("is given twice; names are case-insensitive")
        problem = problem or (_problem_of_redacted(name, known) if value == REDACTED else problem_with_value(value))
        if problem:
            raise ValidationError({"headers": f"{name[:MAX_QUOTED_NAME]!r} {gettext(problem)}."})
        found[name.lower()] = [name, _token(value, known.get(name.lower()))]
    return list(found.values())


def _problem_of_redacted(name: str, known: Collection[str]) -> str:
    if name.lower() in known:
        return ""
    return gettext_noop("has no stored value to keep; give it again. A new scheme, host or port drops all values")


def _with_credentials(
    headers: EncryptedHeaders, stored: EncryptedHeaders, credentials: tuple[str, str] | None
) -> EncryptedHeaders:
    others = [[name, token] for name, token in headers if name.lower() != "authorization"]
    if credentials is None:
        return others
    try:
        value = basic_authorization(*credentials)
    except ValueError as error:
        raise ValidationError({"basic_auth": gettext(str(error))}) from None
    if problem := problem_with_value(value):
        raise ValidationError({"basic_auth": f"{AUTHORIZATION} {gettext(problem)}."})
    known = {name.lower(): token for name, token in stored}
    return [*others, [AUTHORIZATION, _token(value, known.get("authorization"))]]


def _completed(
    credentials: tuple[str | None, str | None] | None, stored: EncryptedHeaders, *, has_lost: bool
) -> tuple[str, str] | None:
    """Return credentials with the stored value in place of None, or "" if there is none.

    ``has_lost`` is True if the stored values were dropped with the URL for which they were given.
    """
    if credentials is None or None not in credentials:
        return cast("tuple[str, str] | None", credentials)
    kept = _stored_credentials(stored)
    if kept is None and has_lost:
        message = _("Enter the user name and the password: a new scheme, host or port of the URL drops stored ones.")
        raise ValidationError({"basic_auth": message})
    (user, password), (old_user, old_password) = credentials, kept or ("", "")
    return old_user if user is None else user, old_password if password is None else password


def _stored_credentials(stored: EncryptedHeaders) -> tuple[str, str] | None:
    """Return the user name and password of basic authentication; None if there are none, or if they are unreadable."""
    token = next((token for name, token in stored if name.lower() == "authorization"), None)
    try:
        return None if token is None else basic_credentials(decrypt(token))
    except SecretUnreadableError:
        return None


def _token(value: str, stored: str | None) -> str:
    """Return the encrypted value, or the stored token if its value is the same."""
    if stored is None:
        return encrypt(value)
    if value == REDACTED:
        return stored
    try:
        return stored if decrypt(stored) == value else encrypt(value)
    except SecretUnreadableError:
        return encrypt(value)


def _fingerprint(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()[:8]


def problem_with_name(name: str, reserved: Collection[str] = ()) -> str:
    """Return the reason why this header is not allowed; "" if it is. ``reserved`` are further names in lower case."""
    if not _TOKEN.fullmatch(name) or len(name) > MAX_HEADER_NAME:
        return f"is not a header name: give 1 to {MAX_HEADER_NAME} letters, digits and characters of !#$%&'*+-.^_`|~"
    lower = name.lower()
    if lower in RESERVED_NAMES or lower in reserved or lower.startswith(RESERVED_PREFIXES):
        return "is reserved: it belongs to HTTP or to the service"
    return ""


def problem_with_value(value: str) -> str:
    """Return the reason why this value is not allowed; "" if it is."""
    if len(value) > MAX_VALUE_LENGTH:
        return f"has a value of more than {MAX_VALUE_LENGTH:,} characters"
    if not _VALUE.fullmatch(value):
        return "has a value that is empty, begins or ends with a space, or is not printable ASCII"
    return ""


def basic_authorization(user: str, password: str) -> str:
    """Return the value of the Authorization header (RFC 7617). Raise ValueError if it cannot hold the credentials."""
    if ":" in user:
        raise ValueError("The user name for basic authentication must not contain a colon.")
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in user + password):
        raise ValueError("Credentials for basic authentication must not contain control characters.")
    return BASIC + base64.b64encode(f"{user}:{password}".encode()).decode()


def basic_credentials(value: str) -> tuple[str, str] | None:
    """Return the user name and the password of an Authorization header; None for another kind of header."""
    if not value.startswith(BASIC):
        return None
    try:
        user, colon, password = base64.b64decode(value.removeprefix(BASIC), validate=True).decode().partition(":")
    except ValueError:
        return None
    return (user, password) if colon else None
