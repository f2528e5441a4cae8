"""Fields of the records: strict in what they take, and independent of the host's own formats."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.utils.dateparse import parse_datetime
from rest_framework import serializers

from ..models.limits import SECRET_LENGTHS, check_secret
from ..models.own_headers import MAX_HEADERS
from ..models.visibility import public_event_types
from ..protocol.header_rules import MAX_VALUE_LENGTH
from ..protocol.times import format_time

ASK_FOR_MOMENT = "Give a time with its offset, as in 2026-01-31T12:00:00Z."

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
"""The form of a URL that can be accepted; ``parse_endpoint`` refuses some URLs of this form."""


class TextField(serializers.CharField):
    """A string, taken as it is: nothing is trimmed, no other type is turned into one."""

    component: str | None = None
    """The name of the schema, where the documentation is to show it once for all its uses."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"trim_whitespace": False, **kwargs})

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)

    def schema_extras(self) -> dict[str, Any]:
        """Return what JSON Schema can say about the text beyond its length."""
        return {"pattern": r"^[^\u0000]*$"}


class UrlField(TextField):
    """A URL to send to. The schema has its form; the check of the endpoint also refuses local names and addresses."""

    def schema_extras(self) -> dict[str, Any]:
        return {"format": "uri", "pattern": URL_PATTERN}


class EventTypeField(TextField):
    """The name of an event type. Whether the catalogue has it is asked where it is used, once for all names."""

    component = "EventTypeName"

    def schema_extras(self) -> dict[str, Any]:
        return {"enum": list(public_event_types().names())}


class ShortListField(serializers.ListField):
    """A list whose length is looked at first, so that no answer tells of thousands of items what is wrong with each."""

    def to_internal_value(self, data: Any) -> list[Any]:
        if isinstance(data, list):
            self.run_validators(data)
        return super().to_internal_value(data)


class SecretField(TextField):
    """A secret that the caller chooses; where it is left out, one is made."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"required": False, "validators": [check_secret], **kwargs})

    def schema_extras(self) -> dict[str, Any]:
        limits = {"minLength": SECRET_LENGTHS.start, "maxLength": SECRET_LENGTHS.stop - 1}
        return {"pattern": r"^[^\u0000-\u001f\u007f-\u009f]*$", **limits}


class HeadersField(serializers.DictField):
    """Headers by name. The names and values are checked where they are used."""

    child = TextField(max_length=MAX_VALUE_LENGTH)

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        if isinstance(data, dict) and len(data) > MAX_HEADERS:
            raise serializers.ValidationError(f"Give at most {MAX_HEADERS} headers.")
        return super().to_internal_value(data)


class CredentialsSerializer(serializers.Serializer[Any]):
    username = TextField(max_length=256)
    password = TextField(max_length=1024, allow_blank=True)


class CredentialsField(CredentialsSerializer):
    """User name and password as a pair."""

    def to_internal_value(self, data: Any) -> Any:
        credentials = super().to_internal_value(data)
        return credentials["username"], credentials["password"]


class FilterField(serializers.JSONField):
    """A filter, which the model checks."""

    def schema_extras(self) -> dict[str, Any]:
        return {"type": ["object", "null"]}


class FlagField(serializers.BooleanField):
    """``true`` or ``false``, and none of the strings and numbers that could mean them."""

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid", input=data)
        return data


class CountField(serializers.IntegerField):
    """A whole number, which JSON may write as ``3600.0``, and none of the strings and fractions that could mean one."""

    def to_internal_value(self, data: Any) -> int:
        is_whole = isinstance(data, int) or (isinstance(data, float) and data.is_integer())
        if not is_whole or isinstance(data, bool):
            self.fail("invalid")
        return super().to_internal_value(int(data))


class RateField(serializers.FloatField):
    """A number, and none of the strings that could mean one."""

    def to_internal_value(self, data: Any) -> float:
        if not isinstance(data, (int, float)) or isinstance(data, bool):
            self.fail("invalid")
        return super().to_internal_value(data)


class AskedMomentField(serializers.DateTimeField):
    """A point in time that a caller gives: a string with its offset, so that it means the same everywhere."""

    def to_internal_value(self, value: Any) -> datetime:
        try:
            moment = parse_datetime(value) if isinstance(value, str) else None
            if moment is not None and moment.tzinfo is not None:
                return moment.astimezone(UTC)
        except (ValueError, OverflowError):
            pass
        raise serializers.ValidationError(ASK_FOR_MOMENT)


class MomentField(serializers.DateTimeField):
    """A point in time as the envelope writes it."""

    def to_representation(self, value: datetime) -> str:
        return format_time(value)
