"""One event type: its name, the model of its data, and an example."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    PlainSerializer,
    RootModel,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
)
from pydantic.json_schema import DEFAULT_REF_TEMPLATE, GenerateJsonSchema, JsonSchemaValue

from ..exceptions import InvalidEventDataError, InvalidEventTypeError
from ..protocol import json_data
from ..protocol.json_data import format_time
from ..reasons import ReasonText

if TYPE_CHECKING:
    from .. import Event

M = TypeVar("M", bound=BaseModel)
"""The data model of an event type."""

NAME_PATTERN = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)+")
MAX_NAME_LENGTH = 100
JSON_SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"

UtcTime = Annotated[
    AwareDatetime,
    PlainSerializer(format_time, when_used="json"),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""A point in time, in the format of the envelope's ``created``."""

_ANYTHING: TypeAdapter[Any] = TypeAdapter(Any)


class EventData(BaseModel):
    """A base for data models: immutable, without unknown fields, and without conversions on instantiation."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


@dataclass(frozen=True, kw_only=True, eq=False)
class EventType(Generic[M]):
    """A kind of event that integrators can subscribe to. Raise InvalidEventTypeError if it is unusable.

    ``data_model`` is any pydantic model. Values are never converted (``"3"`` is not an integer), and unknown fields
    are refused unless the model's own configuration allows them. ``example`` is the data of a test event.
    ``operational`` marks this app's events about its own deliveries: only the platform's webhooks can subscribe to
    them, and only this app emits them. ``reference_fields`` names fields of the data whose values, strings or
    integers, become references of each event.
    """

    name: str
    description: str
    data_model: type[M]
    example: Mapping[str, Any]
    group: str = ""
    operational: bool = False
    reference_fields: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not NAME_PATTERN.fullmatch(self.name) or len(self.name) > MAX_NAME_LENGTH:
            raise InvalidEventTypeError(
                f"{self.name[:MAX_NAME_LENGTH]!r} is not a valid name of an event type: use lower-case words of "
                f"letters, digits and underscores, joined by dots, with at most {MAX_NAME_LENGTH} characters in all, "
                "such as ppt.edit.started."
            )
        data_model: object = self.data_model
        if not (isinstance(data_model, type) and issubclass(data_model, BaseModel)):
            raise InvalidEventTypeError(f"The data model of {self.name} is not a pydantic model; pass its class.")
        if issubclass(data_model, RootModel):
            raise InvalidEventTypeError(f"The data of {self.name} must be an object with fields, not a root model.")
        if unknown := [name for name in self.reference_fields if name not in self._field_names()]:
            fields = ", ".join(self._field_names())
            raise InvalidEventTypeError(f"{self.name} has no field {unknown[0]} for a reference; it has {fields}.")
        try:
            object.__setattr__(self, "example", self.validate(self.example))
        except InvalidEventDataError as error:
            raise InvalidEventTypeError(f"The example does not fit. {error}") from None

    def emit(
        self,
        data: M | Mapping[str, Any],
        *,
        owner: Any,
        occurred_at: datetime | None = None,
        idempotency_key: str | None = None,
        references: Sequence[str] = (),
        ordering_key: str | None = None,
    ) -> Event:
        """Record an event of this type, as ``webhooks_app.emit`` does."""
        from .. import emit  # noqa: PLC0415 (the package resolves it when the models are loaded)

        return emit(
            self,
            data,
            owner=owner,
            occurred_at=occurred_at,
            idempotency_key=idempotency_key,
            references=references,
            ordering_key=ordering_key,
        )

    async def aemit(
        self,
        data: M | Mapping[str, Any],
        *,
        owner: Any,
        occurred_at: datetime | None = None,
        idempotency_key: str | None = None,
        references: Sequence[str] = (),
        ordering_key: str | None = None,
    ) -> Event:
        """Record an event from asynchronous code."""
        from .. import aemit  # noqa: PLC0415

        return await aemit(
            self,
            data,
            owner=owner,
            occurred_at=occurred_at,
            idempotency_key=idempotency_key,
            references=references,
            ordering_key=ordering_key,
        )

    def validate(self, data: Mapping[str, Any] | BaseModel) -> dict[str, Any]:
        """Return the data to be sent, in JSON types and without omitted optional fields.

        Raise InvalidEventDataError with the problem of each field that does not fit.
        """
        instance = self._instance(data)
        walk = _Walk()
        not_given = walk.through(instance)
        if walk.is_plain:  # as nearly always; everything else is examined before and after its conversion to JSON types
            with suppress(ValueError):
                return instance.model_dump(mode="json", by_alias=True, exclude=not_given, warnings="error")
        self._refuse(json_data.problems(self._dump(instance, warnings=False), only_json_types=False))
        dumped = self._dump(instance, mode="json", by_alias=True, exclude=not_given, warnings="error")
        self._refuse(json_data.problems(dumped))
        return dumped

    def references(self, data: Mapping[str, Any]) -> list[str]:
        """Return the values of the reference fields in data that ``validate`` has returned."""
        values = (data.get(name) for name in self.reference_fields)
        return [str(value) for value in values if isinstance(value, (str, int)) and not isinstance(value, bool)]

    def json_schema(self, ref_template: str = DEFAULT_REF_TEMPLATE) -> dict[str, Any]:
        """Return the JSON Schema (2020-12) of the data that receivers get.

        It allows additional fields, because receivers must tolerate fields that are added later. Nested models are
        under ``$defs``; ``ref_template`` is the form of references to them within a larger document.
        """
        schema = self.data_model.model_json_schema(
            mode="serialization", schema_generator=_OpenJsonSchema, ref_template=ref_template
        )
        return {"$schema": JSON_SCHEMA_DIALECT, **schema}

    def _instance(self, data: Mapping[str, Any] | BaseModel) -> BaseModel:
        if type(data) is self.data_model:
            return data
        if not isinstance(data, Mapping):
            model = self.data_model.__name__
            raise InvalidEventDataError(
                self.name, {"": f"must be a mapping or an instance of {model}, not {type(data).__name__}"}
            )
        try:
            return self.data_model.model_validate(dict(data), strict=True, extra=self._extra)
        except ValidationError as error:
            return self._instance_from_json(data, error)

    def _instance_from_json(self, data: Mapping[str, Any], error: ValidationError) -> BaseModel:
        """Validate the data once more as JSON: times and UUIDs may be strings, and other values are not converted."""
        self._refuse(json_data.problems(data, only_json_types=False))
        try:
            text = json.dumps(dict(data))
        except TypeError:  # The data contains objects, so it was not JSON in the first place.
            raise InvalidEventDataError(self.name, dict(self._described(error))) from None
        try:
            return self.data_model.model_validate_json(text, strict=True, extra=self._extra)
        except ValidationError as json_error:
            raise InvalidEventDataError(self.name, dict(self._described(json_error))) from None

    def _dump(self, instance: BaseModel, **options: Any) -> dict[str, Any]:
        try:
            return instance.model_dump(**options)
        except ValueError as error:
            # Without the cause, because pydantic's messages quote the values.
            raise InvalidEventDataError(self.name, self._why_unserializable(instance, error)) from None

    @property
    def _extra(self) -> Any:
        return None if "extra" in self.data_model.model_config else "forbid"

    def _refuse(self, problems: Mapping[str, str]) -> None:
        if problems:
            raise InvalidEventDataError(self.name, problems)

    def _described(self, error: ValidationError) -> Iterator[tuple[str, str]]:
        for detail in error.errors(include_url=False, include_context=False)[: json_data.MAX_PROBLEMS]:
            path = detail["loc"]
            yield json_data.dotted(path), self._description(detail["type"], detail["msg"], path, detail["input"])

    def _description(self, kind: str, message: str, path: tuple[int | str, ...], value: object) -> str:
        if kind == "missing":
            return ReasonText("field_missing")
        if kind == "extra_forbidden":
            if len(path) > 1:
                return ReasonText("field_unknown")
            return ReasonText("field_unknown_among", fields=", ".join(self._field_names()))
        expected = re.sub(r"^\w+ should", "should", message)[:200]
        return f"{expected}, not {type(value).__name__}" if kind.endswith("_type") else expected

    def _field_names(self) -> list[str]:
        return [field.alias or name for name, field in self.data_model.model_fields.items()]

    def _why_unserializable(self, instance: BaseModel, error: Exception) -> dict[str, str]:
        """Return why fields of the instance cannot be serialized; only unvalidated changes can cause it."""
        try:
            self.data_model.model_validate(dict(instance), strict=True, by_name=True, by_alias=False)
        except ValidationError as mismatch:
            return dict(self._described(mismatch))
        return dict(_unserializable(instance)) or {"": f"cannot be written as JSON ({type(error).__name__})"}


def _unserializable(instance: BaseModel) -> Iterator[tuple[str, str]]:
    for name, value in instance:
        try:
            _ANYTHING.dump_python(value, mode="json", warnings=False)
        except ValueError:
            yield json_data.dotted([name]), f"contains a value that JSON does not allow (found {type(value).__name__})"


class _Walk:
    """One walk through an instance: which fields ``model_dump`` excludes, and whether the data is plain.

    Plain data has nothing but valid JSON values in models without own serializers, so that its dump has the same
    values. It needs no further examination.
    """

    def __init__(self) -> None:
        self.is_plain = True

    def through(self, instance: BaseModel, depth: int = 0) -> dict[Any, Any]:
        """Return the fields of the instance to exclude: those that are None because no value was given."""
        self.is_plain = self.is_plain and depth < json_data.MAX_DEPTH and _dumps_fields_as_they_are(type(instance))
        if instance.__pydantic_extra__:
            self._inside(instance.__pydantic_extra__, depth)
        left_out: dict[Any, Any] = {}
        for name, value in instance.__dict__.items():
            if value is None:
                if name not in instance.model_fields_set:
                    left_out[name] = True
            elif not json_data.is_plain(value) and (inner := self._inside(value, depth + 1)):
                left_out[name] = inner
        return left_out

    def _inside(self, value: object, depth: int) -> dict[Any, Any]:
        if depth > json_data.MAX_DEPTH:  # endless or refused
            self.is_plain = False
            return {}
        if isinstance(value, BaseModel):
            return self.through(value, depth)
        if isinstance(value, dict):
            items: Any = value.items()
            is_plain = type(value) is dict and all(type(key) is str and json_data.is_plain(key) for key in value)
        elif isinstance(value, list | tuple):
            items = enumerate(value)
            is_plain = type(value) in (list, tuple)
        else:
            items, is_plain = (), False
        self.is_plain = self.is_plain and is_plain and depth < json_data.MAX_DEPTH
        found = {}
        for key, item in items:
            if not json_data.is_plain(item) and (inner := self._inside(item, depth + 1)):
                found[key] = inner
        return found


@lru_cache(maxsize=1024)
def _dumps_fields_as_they_are(model: type[BaseModel]) -> bool:
    """Return True if the model's dump has its fields under their names, and no values that serializers make."""
    names = (field.serialization_alias for field in model.model_fields.values())
    has_aliases = any(alias not in (None, name) for alias, name in zip(names, model.model_fields, strict=True))
    has_options = any(name.startswith("ser_json") for name in model.model_config)
    has_own_dump = model.model_dump is not BaseModel.model_dump
    return not (has_aliases or has_options or has_own_dump or _has_serializers(model.__pydantic_core_schema__))


def _has_serializers(schema: Any) -> bool:
    if isinstance(schema, list | tuple):
        return any(map(_has_serializers, schema))
    if not isinstance(schema, Mapping):
        return False
    own = schema.get("serialization") or schema.get("computed_fields")
    return bool(own) or any(_has_serializers(part) for key, part in schema.items() if key != "metadata")


class _OpenJsonSchema(GenerateJsonSchema):
    """Generates the published schema: additional fields are allowed, and titles derived from names are omitted."""

    def model_schema(self, schema: Any) -> JsonSchemaValue:
        json_schema = super().model_schema(schema)
        if json_schema.get("additionalProperties") is False:
            del json_schema["additionalProperties"]
        return json_schema

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False
