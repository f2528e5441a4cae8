"""The names that a request may contain. Every other field and query parameter is refused."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import get_close_matches
from itertools import islice
from typing import Any, ClassVar, TypeVar

from rest_framework import serializers

from ..protocol.json_data import dotted

MAX_UNKNOWN = 20
"""Maximum number of unknown names in the errors of one object."""

NOT_SAVED = object()
"""The value of a read-only field of a record that does not exist yet. Nothing equals it."""

Shown = Callable[[], Mapping[str, Any]]
"""Returns the values of a record's read-only fields, as the API shows them."""

Row = TypeVar("Row")


def unknown_names(found: Iterable[str], known: Collection[str], noun: str) -> dict[str, list[str]]:
    """Return a message for each name that is not known, with the nearest known name. ``noun`` is "field", for example.

    At most 20 names are examined, so that a body with thousands of them costs no time.
    """
    unknown = islice((name for name in found if name not in known), MAX_UNKNOWN)
    return {(shown := dotted([name])): [_message(shown, known, noun)] for name in unknown}


def _message(name: str, known: Collection[str], noun: str) -> str:
    if near := get_close_matches(name, known, n=1):
        return f"Unknown {noun}. Did you mean {near[0]}?"
    return f"Unknown {noun}. Known {noun}s: {', '.join(sorted(known))}." if known else f"No {noun}s are expected here."


class BodySerializer(serializers.Serializer[Row]):
    """The fields of a body, or of an object within it. Unknown fields are refused, together with all other errors.

    The context may have ``read_only``, a ``Shown`` for the record that the body creates or changes. A read-only field
    is ignored if its value is unchanged, so that a record can be read, edited and sent back.
    """

    hints: ClassVar[Mapping[str, str]] = {}
    """Messages for unknown fields that have a better explanation."""

    def to_internal_value(self, data: Any) -> Any:
        unknown = self._unknown(data) if isinstance(data, Mapping) else {}
        try:
            valid = super().to_internal_value(data)
        except serializers.ValidationError as error:
            detail: Any = error.detail
            raise serializers.ValidationError({**detail, **unknown}) from None
        if unknown:
            raise serializers.ValidationError(unknown)
        return valid

    def _unknown(self, data: Mapping[str, Any]) -> dict[str, list[str]]:
        names = [name for name in data if name not in self.fields]
        if not names:
            return {}
        shown: Shown | None = self.context.get("read_only") if self.root is self else None
        read_only = shown() if shown else {}
        changed = [name for name in names if name in read_only and data[name] != read_only[name]]
        known = {*self.fields, *read_only, *self.hints}
        return {
            **unknown_names(names, known, "field"),
            **{name: ["This field is read-only. Leave it out, or send it unchanged."] for name in changed},
            **{name: [hint] for name, hint in self.hints.items() if name in data},
        }
