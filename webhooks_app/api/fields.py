"""Serializer fields with strict input and a fixed output format, independent of the host's settings.

Unknown fields and query parameters are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from itertools import islice
from typing import Any, ClassVar, TypeVar

from django.utils.dateparse import parse_datetime
from django.utils.functional import lazy
from rest_framework import serializers

from ..models.limits import SECRET_LENGTHS, check_secret
from ..models.own_headers import MAX_HEADERS, MAX_QUOTED_NAME, MAX_VALUE_LENGTH
from ..owners import public_event_types
from ..protocol.json_data import dotted, format_time
from ..reasons import code_of

MAX_UNKNOWN = 20
"""Maximum number of unknown names in the errors of one object."""

UNKNOWN_YET = object()
"""The value of a read-only field of a record that does not exist yet. Nothing equals it."""

Shown = Callable[[], Mapping[str, Any]]
"""Returns the values of a record's read-only fields, as the API shows them."""

Record = TypeVar("Record")

_LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"

_LAST_LABEL = r"[A-Za-z]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"

_IPV4 = r"((0|[1-9][0-9]{0,2})\.){3}(0|[1-9][0-9]{0,2})"

_PORT = (
    r"(443|80|102[4-9]|10[3-9][0-9]|1[1-9][0-9]{2}|[2-9][0-9]{3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}"
    r"|655[0-2][0-9]|6553[0-5])"
)

_TARGET = r"[/?]([A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*"

URL_PATTERN = (
    rf"^[Hh][Tt][Tt][Pp][Ss]?://(({_LABEL}\.)+{_LAST_LABEL}|{_IPV4}|\[[0-9A-Fa-f:.]+\])(:{_PORT})?({_TARGET})?$"
)
"""The syntax of acceptable URLs; ``parse_endpoint`` also refuses some URLs with this syntax."""


def unknown_names(names: Iterable[str], known: Collection[str], noun: str) -> dict[str, list[str]]:
    """Return a message for each name that is not known, with the nearest known name. ``noun`` is "field", for example.

    At most 20 names are examined, so that a body with thousands of them costs no time.
    """
    unknown = islice((name for name in names if name not in known), MAX_UNKNOWN)
    return {(shown := dotted([name])): [_message(shown, known, noun)] for name in unknown}


def _message(name: str, known: Collection[str], noun: str) -> str:
    if near := get_close_matches(name, known, n=1):
        return f"Unknown {noun}. Did you mean {near[0]}?"
    return f"Unknown {noun}. Known {noun}s: {', '.join(sorted(known))}." if known else f"No {noun}s are expected here."


class BodySerializer(serializers.Serializer[Record]):
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


class TextField(serializers.CharField):
    """A string that is neither trimmed nor converted from another type."""

    component: str | None = None
    """The name of a schema that is shared by all uses of the field."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"trim_whitespace": False, **kwargs})

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)

    def schema_extras(self) -> dict[str, Any]:
        """Return the JSON Schema constraints other than the length."""
        return {"pattern": r"^[^\u0000]*$"}


class ReasonCodeField(serializers.CharField):
    """The code of a reason, in an answer."""

    def to_representation(self, value: Any) -> str:
        return code_of(value)


class UrlField(TextField):
    """The URL of an endpoint. The schema checks its syntax; the endpoint check also refuses local addresses."""

    def schema_extras(self) -> dict[str, Any]:
        return {"format": "uri", "pattern": URL_PATTERN}


class OptionField(serializers.ChoiceField):
    """One of several strings; other types are refused."""

    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, str) or data not in self.choice_strings_to_values:
            self.fail("invalid_choice", input=str(data)[:MAX_QUOTED_NAME])
        return super().to_internal_value(data)


class KnownField(serializers.ChoiceField):
    """A value of an answer. The schema names the known values, and permits those that later versions add."""

    def __init__(self, choices: Any, *, help_text: str = "", **options: Any) -> None:
        super().__init__(choices, **options)
        self.help_text = lazy(self._describe, str)(help_text)

    def _describe(self, help_text: str) -> str:
        known = ", ".join(_in_words(value, str(label)) for value, label in self.choices.items())
        return f"{help_text} Known values: {known}.".strip()


def _in_words(value: str, label: str) -> str:
    """Return a value with its meaning, unless both are the same words."""
    is_same = label.casefold() == value.replace("_", " ").replace(".", " ")
    return f"`{value}`" if is_same else f"`{value}` ({label.removesuffix('.')})"


class NameField(TextField):
    """One of several names, which the operation or the model looks up, all names of a list at once."""

    def __init__(self, names: Callable[[], Iterable[str]], component: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.names, self.component = names, component

    def schema_extras(self) -> dict[str, Any]:
        names = list(self.names())
        return {"enum": names} if names else {}


def event_type_field(**kwargs: Any) -> NameField:
    """Return a field for the name of an event type."""
    return NameField(lambda: public_event_types().names(), "EventTypeName", **kwargs)


class ShortListField(serializers.ListField):
    """A list whose length is checked before its items, so that a long list does not cause thousands of errors."""

    def to_internal_value(self, data: Any) -> list[Any]:
        if isinstance(data, list):
            self.run_validators(data)
        return super().to_internal_value(data)


class SecretInputField(TextField):
    """A secret chosen by the caller; generated if omitted."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"required": False, "validators": [check_secret], **kwargs})

    def schema_extras(self) -> dict[str, Any]:
        limits = {"minLength": SECRET_LENGTHS.start, "maxLength": SECRET_LENGTHS.stop - 1}
        return {"pattern": r"^[^\u0000-\u001f\u007f-\u009f]*$", **limits}


class HeadersInputField(serializers.DictField):
    """Headers by name. The operation checks the names and values; errors are reported for the field as a whole."""

    child = TextField(max_length=MAX_VALUE_LENGTH)

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        if not isinstance(data, dict):
            self.fail("not_a_dict", input_type=type(data).__name__)
        if len(data) > MAX_HEADERS:
            raise serializers.ValidationError(f"Give at most {MAX_HEADERS} headers.")
        if others := [name for name, value in data.items() if not isinstance(value, str)]:
            raise serializers.ValidationError(f"{others[0][:MAX_QUOTED_NAME]!r} has a value that is not a string.")
        return dict(data)


class CredentialsSerializer(BodySerializer[Any]):
    username = TextField(max_length=256)
    password = TextField(max_length=1024, allow_blank=True)


class CredentialsField(CredentialsSerializer):
    """User name and password as a pair."""

    def to_internal_value(self, data: Any) -> Any:
        credentials = super().to_internal_value(data)
        return credentials["username"], credentials["password"]


class FilterField(serializers.JSONField):
    """A filter; the operation checks it."""


class FlagField(serializers.BooleanField):
    """``true`` or ``false``; strings and numbers are refused."""

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid", input=data)
        return data


class CountField(serializers.IntegerField):
    """An integer, which JSON may write as ``3600.0``; strings and fractions are refused."""

    def to_internal_value(self, data: Any) -> int:
        is_whole = isinstance(data, int) or (isinstance(data, float) and data.is_integer())
        if not is_whole or isinstance(data, bool):
            self.fail("invalid")
        return super().to_internal_value(int(data))


class RateField(serializers.FloatField):
    """A number; strings are refused."""

    def to_internal_value(self, data: Any) -> float:
        if not isinstance(data, (int, float)) or isinstance(data, bool):
            self.fail("invalid")
        return super().to_internal_value(data)


class MomentInputField(serializers.DateTimeField):
    """A point in time as input: a string with a UTC offset, so that it is unambiguous."""

    def to_internal_value(self, value: Any) -> datetime:
        try:
            return parse_moment(value)
        except ValueError as error:
            raise serializers.ValidationError(str(error)) from None


def parse_moment(value: Any) -> datetime:
    """Return the time that a string with a UTC offset names, in UTC. Raise ValueError for any other value."""
    try:
        moment = parse_datetime(value) if isinstance(value, str) else None
        if moment is not None and moment.tzinfo is not None:
            return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise ValueError("Give a time with a UTC offset, such as 2026-01-31T12:00:00Z.")


class MomentField(serializers.DateTimeField):
    """A point in time in the format of the envelope."""

    def to_representation(self, value: datetime) -> str:
        return format_time(value)
