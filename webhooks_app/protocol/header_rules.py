"""The rules for a webhook's own headers: names are tokens (RFC 9110, 5.6.2), values are printable ASCII."""

from __future__ import annotations

import base64
import re
import unicodedata
from collections.abc import Collection

MAX_NAME_LENGTH = 100
MAX_VALUE_LENGTH = 4096

RESERVED_NAMES = frozenset(
    (
        *("host", "content-length", "transfer-encoding", "te", "trailer", "expect"),  # framing
        *("connection", "keep-alive", "upgrade", "http2-settings"),  # hop-by-hop
        *("accept", "accept-encoding", "content-type", "content-encoding", "user-agent"),  # set by the service
    )
)
RESERVED_PREFIXES = ("proxy-", "x-webhook-", "webhook-")

_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VALUE = re.compile(r"[!-~](?:[ -~]*[!-~])?")

BASIC = "Basic "


def problem_with_name(name: str, reserved: Collection[str] = ()) -> str:
    """Return the reason why this header is not allowed; "" if it is. ``reserved`` are further names in lower case."""
    if not _TOKEN.fullmatch(name) or len(name) > MAX_NAME_LENGTH:
        return f"is not a header name: give 1 to {MAX_NAME_LENGTH} letters, digits and characters of !#$%&'*+-.^_`|~"
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
    """Return the value of the Authorization header (RFC 7617). Raises ValueError if it cannot hold the credentials."""
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
