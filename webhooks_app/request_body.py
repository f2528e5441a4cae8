"""Reading of request bodies, with the server's errors translated."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import SuspiciousOperation
from django.http import UnreadablePostError


def read_at_most(stream: Any, size: int) -> bytes:
    """Return at most ``size`` bytes of a body. Raise UnreadablePostError if the server cannot read it."""
    try:
        body: bytes = stream.read(size)
    except (UnreadablePostError, SuspiciousOperation):
        raise
    except Exception as error:
        raise UnreadablePostError(*error.args) from error
    return body
