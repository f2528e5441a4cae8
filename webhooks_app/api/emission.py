"""``POST /v1/events``: its bodies, with one event or a batch, and the short way of a usual request."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from io import BytesIO
from typing import TYPE_CHECKING, Annotated, Any, NotRequired

from django.http import HttpRequest, HttpResponse
from django.utils.cache import patch_vary_headers
from pydantic import ConfigDict, Field, PlainValidator, TypeAdapter, ValidationError, WithJsonSchema
from pydantic_core import ErrorDetails
from rest_framework import serializers
from typing_extensions import TypedDict

from .. import emission
from ..conf import settings
from ..exceptions import (
    IdempotencyConflictError,
    InvalidBatchError,
    InvalidEventDataError,
    InvalidOwnerError,
    UnknownEventTypeError,
    WebhooksError,
)
from ..models import ApiKey, Event
from ..models.event import MAX_KEY_LENGTH, MAX_ORDERING_KEY_LENGTH, MAX_REFERENCE_LENGTH, MAX_REFERENCES
from ..operations.actors import BaseActor, ServiceCaller
from ..operations.sending import emit_events
from ..owners import owners_by_key, parse_key
from ..protocol.json_data import format_time
from .authentication import SCHEME, ApiKeyPrincipal, ApiThrottle
from .errors import WHOLE_BODY, Conflict
from .fields import parse_moment, unknown_names
from .idempotency import key_of
from .parsers import StrictJsonParser
from .serializers import EventSerializer

if TYPE_CHECKING:
    from .base import ApiViewSet

MAX_BATCH = 100
OPTIONS = ("occurred_at", "idempotency_key", "references", "ordering_key")


class EventParser(StrictJsonParser):
    @property
    def max_body_bytes(self) -> int:  # type: ignore[override] # read at use, as every setting
        return int(settings.EMIT_BODY_BYTES)


class EmitThrottle(ApiThrottle):
    """At most ``WEBHOOKS_EMIT_RATE`` requests with one service key."""

    name = "emitting"

    @property
    def rate(self) -> str:
        return str(settings.EMIT_RATE)


class EmittedBatchSerializer(serializers.Serializer[Any]):
    events = EventSerializer(many=True, help_text="In the order of the request.")


NO_NUL: Any = {"pattern": r"^[^\u0000]*$"}
"""The parser refuses NUL everywhere; the documentation names it with each text."""


def _text(max_length: int, description: str | None = None) -> Any:
    return Field(min_length=1, max_length=max_length, description=description, json_schema_extra=NO_NUL)


_OWNER = Field(description="Primary key of the owner; null for an event of the platform.")
_DATA = Field(description="Must fit the JSON Schema of the event type.")
_MOMENT = WithJsonSchema({"type": "string", "format": "date-time", "description": "Time of the event. Default: now."})
_KEY = _text(
    MAX_KEY_LENGTH, "Identifies the event among its owner's events. A repeated request returns the first event."
)
_REFERENCES = Field(max_length=MAX_REFERENCES, description="Business identifiers for finding the event.")
_ORDERING_KEY = _text(
    MAX_ORDERING_KEY_LENGTH, "A webhook with order by `key` gets the events with the same key one after the other."
)
_EVENTS = Field(min_length=1, max_length=MAX_BATCH, description="Either all are recorded, or none.")


class NewEvent(TypedDict):
    """An event to emit."""

    __pydantic_config__ = ConfigDict(strict=True, extra="forbid")  # type: ignore[misc] # as pydantic wants it

    type: Annotated[str, Field(min_length=1, description="The event type.")]
    owner: Annotated[Annotated[str, _text(255)] | None, _OWNER]
    data: Annotated[dict[str, Any], _DATA]
    occurred_at: NotRequired[Annotated[datetime, PlainValidator(parse_moment), _MOMENT]]
    idempotency_key: NotRequired[Annotated[str, _KEY]]
    references: NotRequired[Annotated[list[Annotated[str, _text(MAX_REFERENCE_LENGTH)]], _REFERENCES]]
    ordering_key: NotRequired[Annotated[str, _ORDERING_KEY]]


class EventBatch(TypedDict):
    """Several events to emit."""

    __pydantic_config__ = ConfigDict(strict=True, extra="forbid")  # type: ignore[misc]

    events: Annotated[list[NewEvent], _EVENTS]


_EVENT: TypeAdapter[Any] = TypeAdapter(NewEvent)
_BATCH: TypeAdapter[Any] = TypeAdapter(EventBatch)

FIELDS, FIELDS_OF_BATCH = (frozenset(body.__annotations__) for body in (NewEvent, EventBatch))

MESSAGES = {
    "missing": "This field is required.",
    "string_type": "Not a valid string.",
    "string_too_short": "This field may not be blank.",
    "string_too_long": "Ensure this field has no more than {max_length} characters.",
    "too_long": "Ensure this field has no more than {max_length} elements.",
    "too_short": "Ensure this field has at least {min_length} elements.",
    "dict_type": 'Expected a dictionary of items but got type "{input}".',
    "list_type": 'Expected a list of items but got type "{input}".',
    "value_error": "{error}",
}
"""The messages of Django REST framework, which the other bodies have, by pydantic's types of errors."""


def errors_of(error: ValidationError, *, is_batch: bool) -> dict[str, Any]:
    """Return the messages of an invalid body, nested as the body is."""
    errors: dict[Any, Any] = {}
    unknown: dict[tuple[str | int, ...], list[str]] = {}
    for each in error.errors(include_url=False):
        *path, name = each["loc"] or (WHOLE_BODY,)
        if each["type"] == "extra_forbidden":
            unknown.setdefault(tuple(path), []).append(str(name))
        else:
            _within(errors, path)[name] = _messages_of(each, is_event=is_batch and path == ["events"])
    for where, names in unknown.items():
        known = FIELDS_OF_BATCH if is_batch and not where else FIELDS
        _within(errors, where).update(unknown_names(names, known, "field"))
    return errors


def _within(errors: dict[Any, Any], path: Iterable[str | int]) -> dict[Any, Any]:
    for name in path:
        errors = errors.setdefault(name, {})
    return errors


def _messages_of(error: ErrorDetails, *, is_event: bool) -> Any:
    value, given = error["input"], type(error["input"]).__name__
    if is_event:
        return {WHOLE_BODY: [f"Invalid data. Expected a dictionary, but got {given}."]}
    if value is None and error["type"] != "missing":
        return ["This field may not be null."]
    message = MESSAGES.get(error["type"])
    return [message.format(**{**error.get("ctx", {}), "input": given}) if message else error["msg"]]


class Emission:
    """A request to emit one event or several, and the paths of its errors."""

    def __init__(self, body: Mapping[str, Any], key: str | None) -> None:
        self.is_batch = "events" in body
        self._key = key
        self._errors: dict[str, Any] = {}
        try:
            self._fields: list[dict[str, Any]] = (
                _BATCH.validate_python(body)["events"] if self.is_batch else [_EVENT.validate_python(body)]
            )
        except ValidationError as error:
            self._errors = errors_of(error, is_batch=self.is_batch)
            if self.is_batch and not isinstance(self._errors.get("events", {}), dict):
                raise serializers.ValidationError(self._errors) from None
            items = body["events"] if self.is_batch else [body]
            of_items = self._errors.get("events", {}) if self.is_batch else {0: self._errors}
            self._fields = [_valid_fields(item, of_items.get(index, {})) for index, item in enumerate(items)]

    def emit(self, actor: BaseActor) -> dict[str, Any]:
        """Record the events, and return the answer. Raise ValidationError and Conflict."""
        try:
            events = emit_events(self.new_events(), actor=actor)
        except InvalidBatchError as error:
            raise self.problem(error) from None
        records = [_record(event) for event in events]
        return {"events": records} if self.is_batch else records[0]

    def new_events(self) -> list[emission.NewEvent[Any]]:
        """Return the events with their owners. Raise ValidationError with the problems of all events."""
        owners, refused = _find_owners([fields.get("owner") for fields in self._fields])
        problems: dict[int, dict[str, Any]] = {}
        for index, fields in enumerate(self._fields):
            owner = fields.get("owner")
            problem = problems[index] = self._apply_key(index, fields)
            if owner in refused:
                problem["owner"] = [refused[owner]]
        new_events = [
            emission.NewEvent(
                fields.get("type", ""),
                fields.get("data", {}),
                **{**_options(fields), "owner": owners.get(fields.get("owner"))},
            )
            for fields in self._fields
        ]
        if self._errors or any(problems.values()):
            raise serializers.ValidationError(self._all_problems(problems, new_events))
        return new_events

    def _all_problems(
        self, problems: dict[int, dict[str, Any]], new_events: Sequence[emission.NewEvent[Any]]
    ) -> dict[str, Any]:
        """Return these errors of the body, together with the errors of each event's data, by index."""
        for index, (fields, new) in enumerate(zip(self._fields, new_events, strict=True)):
            if {"type", "data"} <= fields.keys():
                try:
                    new.unsaved()
                except WebhooksError as error:
                    problems[index] |= _messages(error)
        if not self.is_batch:
            return {**problems[0], **self._errors}
        of_items = self._errors.get("events", {})
        merged = {index: {**problem, **of_items.get(index, {})} for index, problem in problems.items()}
        return {**self._errors, "events": {index: problem for index, problem in merged.items() if problem}}

    def problem(self, error: InvalidBatchError) -> Exception:
        """Return the API's error with messages by field, and by index in a batch."""
        located = self._located({index: _messages(each) for index, each in error.errors.items()})
        if all(isinstance(each, IdempotencyConflictError) for each in error.errors.values()):
            return Conflict(located if self.is_batch else str(error.errors[0]))
        return serializers.ValidationError(located)

    def _apply_key(self, index: int, fields: dict[str, Any]) -> dict[str, Any]:
        """Apply the header's key, and return the errors; in a batch, the key of each event also contains its index."""
        if self._key is None:
            return {}
        if "idempotency_key" in fields:
            return {"idempotency_key": ["Send the key in the header or in the body, not in both."]}
        fields["idempotency_key"] = f"{self._key}/{index}" if self.is_batch else self._key
        return {}

    def _located(self, errors: Mapping[int, Any]) -> Any:
        return {"events": dict(errors)} if self.is_batch else errors[0]


def _record(event: Event) -> dict[str, Any]:
    """Return an event as by ``EventSerializer``."""
    return {"id": event.id, "type": event.type, "created": format_time(event.created_at), "test": event.is_test}


def _valid_fields(item: Any, errors: Mapping[str, Any]) -> dict[str, Any]:
    """Return the valid fields of an event with these errors, so that problems with its data are found too."""
    if not isinstance(item, Mapping):
        return {}
    fields = {name: item[name] for name in FIELDS if name in item and name not in errors}
    if "occurred_at" in fields:
        fields["occurred_at"] = parse_moment(fields["occurred_at"])
    return fields


def _options(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: fields[name] for name in OPTIONS if name in fields}


def _find_owners(texts: Sequence[str | None]) -> tuple[dict[str | None, Any], dict[str | None, str]]:
    """Return the owners by the texts of their primary keys, and the problems of the other texts."""
    keys: dict[str, Any] = {}
    problems: dict[str | None, str] = {}
    for text in texts:
        if text is not None:
            try:
                keys[text] = parse_key(text)
            except InvalidOwnerError as error:
                problems[text] = str(error)
    owners = owners_by_key(keys.values())
    problems |= {text: f"There is no owner {text[:100]!r}." for text, key in keys.items() if key not in owners}
    return {text: owners[key] for text, key in keys.items() if key in owners}, problems


def _messages(error: WebhooksError) -> dict[str, Any]:
    match error:
        case UnknownEventTypeError():
            return {"type": [str(error)]}
        case InvalidOwnerError():
            return {"owner": [str(error)]}
        case IdempotencyConflictError():
            return {"idempotency_key": [str(error)]}
        case InvalidEventDataError():
            return {_field(path): [f"The value {message}."] for path, message in error.errors.items()}
    return {"data": [str(error)]}


def _field(path: str) -> str:
    if path.partition("[")[0] in OPTIONS:
        return path
    return f"data.{path}" if path else "data"


USUAL_ACCEPTS = ("*/*", "application/json")


def emit_at_once(view: ApiViewSet, request: HttpRequest) -> Any:
    """Answer a usual request with a service key; return None for any other, before its body is read or counted.

    Django REST framework's way to the same answer takes twice as long. The steps and their order are the same here, and
    it answers the errors.
    """
    try:
        api_key = _service_key(request)
        if api_key is None:
            return None
        api_key.touch()
        request.user, request.auth = ApiKeyPrincipal(api_key), api_key  # type: ignore[assignment,attr-defined] # as DRF
        EmitThrottle().allow_request(request, view)  # type: ignore[arg-type] # reads these two only
        stream: Any = BytesIO(request.body) if request._read_started else request  # type: ignore[attr-defined] # noqa: SLF001 - as DRF
        body = EventParser().parse(stream, parser_context={"request": request})
        key = key_of(request) if "idempotency-key" in request.headers else None
        actor = ServiceCaller(name=request.user.get_username(), scopes=frozenset(api_key.scopes))
        answer = Emission(body, key).emit(actor)
    except Exception as error:  # noqa: BLE001 - as in Django REST framework
        return _answer_error(view, request, error)
    content = json.dumps(answer, separators=(",", ":"))
    return _with_headers(HttpResponse(content, status=202, content_type="application/json"), view)


def _service_key(request: HttpRequest) -> ApiKey | None:
    """Return the service key of a usual request: without a query, and with headers as most clients send them."""
    headers = request.META
    scheme, _, text = headers.get("HTTP_AUTHORIZATION", "").partition(" ")
    length = headers.get("CONTENT_LENGTH", "")
    is_usual = (
        scheme == SCHEME
        and headers.get("CONTENT_TYPE") == "application/json"
        and headers.get("HTTP_ACCEPT", "*/*") in USUAL_ACCEPTS
        and not headers.get("QUERY_STRING")
        and length.isascii()
        and length.isdecimal()
        and length.strip("0")
    )
    api_key = ApiKey.objects.find_service_key(text) if is_usual else None
    return api_key if api_key is not None and ApiKey.Scope.EVENTS_EMIT in api_key.scopes else None


def _with_headers(response: HttpResponse, view: ApiViewSet) -> HttpResponse:
    headers = view.default_response_headers
    patch_vary_headers(response, [headers.pop("Vary")])
    for name, value in headers.items():
        response[name] = value
    return response


def _answer_error(view: ApiViewSet, request: HttpRequest, error: Exception) -> Any:
    """Answer as Django REST framework does after an exception."""
    view.request = view.initialize_request(request)
    view.headers = view.default_response_headers
    view.response = view.finalize_response(view.request, view.handle_exception(error))
    return view.response
