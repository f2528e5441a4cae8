"""Owners by primary key and by text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from django.core.exceptions import ValidationError

from ..exceptions import InvalidOwnerError
from .registry import owner_model, owner_rows


def parse_key(text: str) -> Any:
    """Return the primary key of the owner model that a text names. There need not be such an owner.

    A key must be written as Python prints it. A number with a space, a leading zero or digits of another script isn't a
    key, although ``int`` reads it. UUIDs may be in capitals or without hyphens.

    Raises InvalidOwnerError for any other text, such as the owner's name.
    """
    try:
        key = owner_model()._meta.pk.to_python(text)
    except ValidationError:
        key = None
    if key is None or text not in _spellings(key, text):
        raise InvalidOwnerError(
            f"{text[:100]!r} is not a primary key of {owner_model()._meta.label}. Send the owner's primary key "
            "(str(owner.pk)), not its name."
        )
    return key


def _spellings(key: Any, text: str) -> Iterable[str]:
    if isinstance(key, UUID) and text.lower() in (str(key), key.hex):
        return (text,)
    return (str(key),)


def owners_by_key(keys: Iterable[Any]) -> Mapping[Any, Any]:
    """Return the existing owners among these primary keys, by primary key."""
    try:
        found: Mapping[Any, Any] = owner_rows().in_bulk(set(keys))
    except OverflowError:  # a number that SQLite cannot hold
        return {}
    return found
