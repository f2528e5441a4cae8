"""The OpenAPI 3.1 document; ``operations`` of the view sets supplies the parts that drf-spectacular cannot infer."""

# The annotations of drf-spectacular are incomplete.
# mypy: allow-untyped-calls

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from http import HTTPStatus
from threading import Lock
from typing import Any

from django.urls import URLPattern, URLResolver
from django.utils import translation
from drf_spectacular.extensions import (
    OpenApiAuthenticationExtension,
    OpenApiSerializerExtension,
    OpenApiSerializerFieldExtension,
)
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ResolvedComponent
from drf_spectacular.settings import SPECTACULAR_DEFAULTS, patched_settings
from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from .. import catalogue
from ..conf import settings
from ..event_types import EventType
from ..models.limits import most_in_flight
from ..owners import public_event_types
from . import errors
from .deprecations import DEPRECATED, mark_fields
from .fields import event_type_field
from .idempotency import HEADER, SCHEMA

PROBLEM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "An error (RFC 9457).",
    "required": ["type", "title", "status"],
    "properties": {
        "type": {"type": "string", "format": "uri-reference", "description": "Always `about:blank`."},
        "title": {"type": "string", "description": "The reason phrase of the status."},
        "status": {"type": "integer", "description": "The HTTP status code."},
        "detail": {"type": "string", "description": "Human-readable explanation."},
        "errors": {
            "type": "object",
            "additionalProperties": {"type": "array", "items": {"type": "string"}},
            "description": "Messages by field; `events[0]` is the first item of the field `events`.",
        },
        "limit": {
            "type": "string",
            "description": "The exceeded rate limit (429): `requests`, `emitting`, `tests`, `verifications` or "
            "`probes`.",
        },
    },
}

PROBLEMS = {
    400: "The request is invalid, or contains NUL or a lone surrogate; `errors` has messages by field.",
    401: "The API key is missing or invalid.",
    403: "The API key lacks the scope, or is of the wrong kind.",
    404: "The object does not exist, or belongs to another account.",
    406: "The Accept header excludes JSON.",
    409: "The state of the webhook, delivery or replay does not allow the operation; or the Idempotency-Key was used "
    "with another body, or its first request is still in progress.",
    411: "The body is chunked and has no Content-Length.",
    413: "The body is larger than {max_body_bytes:,} bytes.",
    415: "The body is not JSON in UTF-8.",
    429: "The rate limit named in `limit` is exceeded. Try again after the number of seconds in Retry-After.",
    503: "The rate limits of such requests are unavailable at the moment. Try again later.",
}

_INTEGER_HEADER = {"required": True, "schema": {"type": "integer", "minimum": 1}}
_STRING_HEADER = {"required": True, "schema": {"type": "string"}}
HEADERS = {
    201: {"Location": {**_STRING_HEADER, "description": "URL of the new record."}},
    401: {"WWW-Authenticate": {**_STRING_HEADER, "description": "`Bearer`."}},
    429: {"Retry-After": {**_INTEGER_HEADER, "description": "Seconds to wait."}},
}

DESCRIPTION = """Register webhooks, send test events and read the delivery log.

Errors are problem documents (RFC 9457). Strings and parameters with NUL or a lone surrogate are refused with 400.
Lists are paginated, newest first: follow `next`. New fields may be added to records and to event data at any time;
ignore the fields that you do not know. States, results, reasons and other fields of answers with known values
(`x-extensible-enum`) may get new ones: accept every string there. Requests accept only the documented values."""

SETTINGS: dict[str, Any] = {
    **{name: value for name, value in SPECTACULAR_DEFAULTS.items() if not name.startswith(("SERVE_", "DEFAULT_"))},
    "OAS_VERSION": "3.1.0",
    "TITLE": "Webhooks",
    "DESCRIPTION": DESCRIPTION,
    "VERSION": "1",
    "SCHEMA_PATH_PREFIX": "",
    "COMPONENT_SPLIT_PATCH": False,
    "SORT_OPERATIONS": False,
    "SORT_OPERATION_PARAMETERS": False,
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
}
"""All settings that affect the document, so that it does not depend on the host's own settings."""


class OperationSchema(AutoSchema):
    """Describe an action of a view set by its entry in ``operations`` and its docstring."""

    view: Any

    def get_operation_id(self) -> str:
        return str(self.view.operation_id)

    def is_deprecated(self) -> bool:
        return self.view.operation_id in DEPRECATED

    def get_tags(self) -> list[str]:
        return [self.view.tag]

    def get_summary(self) -> str:
        return self._docstring[0].removesuffix(".")

    def get_description(self) -> str:  # type: ignore[override]
        scope = self.view.operation.scope
        return "\n\n".join([*self._docstring[1:], *([f"Requires the scope `{scope}`."] if scope else [])])

    def get_request_serializer(self) -> Any:
        return self.view.operation.request

    def get_response_serializers(self) -> Any:
        operation = self.view.operation
        return {operation.status: operation.answer(many=operation.many) if operation.answer else None}

    def _get_examples(self, serializer: Any, direction: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
        from .examples import examples  # noqa: PLC0415 (the examples know the serializers, which know this module)

        operation = self.view.operation
        known = examples(tuple(public_event_types()))
        example = known.get(operation.request if direction == "request" else operation.answer)
        if example is None:
            return {}
        if direction == "response" and operation.many:
            example = {"next": None, "previous": None, "results": [example]}
        return {"example": {"value": example}}

    def _get_request_body(self, *args: Any, **kwargs: Any) -> Any:
        operation = self.view.operation
        if operation.request is None:
            return None
        body = {**super()._get_request_body(*args, **kwargs), "required": operation.body_required}
        return self._with_batch(body, operation.batch, "request")

    def _with_batch(self, described: dict[str, Any], batch: Any, direction: Any) -> dict[str, Any]:
        """Return the description of a body with the schema of a batch as an alternative."""
        if batch is not None:
            content = described["content"]["application/json"]
            content["schema"] = {"oneOf": [content["schema"], self.resolve_serializer(batch, direction).ref]}
        return described

    def _get_response_bodies(self, *args: Any, **kwargs: Any) -> Any:
        answers: dict[str, Any] = super()._get_response_bodies(*args, **kwargs)
        component = ResolvedComponent("Problem", ResolvedComponent.SCHEMA, schema=PROBLEM_SCHEMA, object="Problem")
        self.registry.register_on_missing(component)
        for code, answer in answers.items():
            answer["description"] = answer["description"] or HTTPStatus(int(code)).phrase
            self._with_batch(answer, self.view.operation.batch_answer, "response")
        for status in self._problem_statuses():
            answers[str(status)] = self._problem(status, component.ref)
        for status, headers in HEADERS.items():
            if str(status) in answers:
                answers[str(status)]["headers"] = headers
        return answers

    def _get_parameters(self) -> Any:
        parameters = super()._get_parameters()
        if self.method != "POST":
            return parameters
        description = (
            "Makes the request safe to repeat: for 24 hours, the same owner, route, key and body get the first answer. "
            "Another body is refused with 409."
        )
        return [*parameters, {"name": HEADER, "in": "header", "description": description, "schema": {**SCHEMA}}]

    def _problem_statuses(self) -> list[int]:
        operation = self.view.operation
        return [
            *(400, 401),
            *([403] if operation.scope else []),
            *([404] if "{" in self.path or _names_webhook(operation.request) else []),
            406,
            *([409] if self.method == "POST" else []),
            *([411, 413, 415] if self.method in ("POST", "PATCH") else []),
            429,
            *([503] if operation.probes else []),
        ]

    def _problem(self, status: int, schema: Any) -> dict[str, Any]:
        description = PROBLEMS[status].format(max_body_bytes=self.view.max_body_bytes)
        return {"description": description, "content": {errors.MEDIA_TYPE: {"schema": schema}}}

    def _resolve_path_parameters(self, variables: Any) -> Any:
        return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in variables]

    @property
    def _docstring(self) -> list[str]:
        text = super().get_description()
        return [" ".join(part.split()) for part in text.split("\n\n")]


def _names_webhook(request: Any) -> bool:
    return "webhook_id" in getattr(request, "_declared_fields", {})


class ApiKeyScheme(OpenApiAuthenticationExtension):
    target_class = "webhooks_app.api.authentication.ApiKeyAuthentication"
    name = "apiKey"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        return {"type": "http", "scheme": "bearer", "description": "An API key of your account: `Bearer whk_…`."}


class BodySchema(OpenApiSerializerExtension):
    target_class = "webhooks_app.api.fields.BodySerializer"
    match_subclasses = True

    def map_serializer(self, auto_schema: Any, direction: Any) -> dict[str, Any]:
        schema = auto_schema._map_serializer(self.target, direction, bypass_extensions=True)  # noqa: SLF001 - as in its documentation
        # Without a docstring, drf-spectacular takes that of the base class, which is for readers of the code.
        if type(self.target).__doc__ is None:
            schema.pop("description", None)
        return {**schema, "additionalProperties": False}


class TypedBodySchema(OpenApiSerializerExtension):
    """The schema of a body that pydantic validates. References lead to the components of the document."""

    def get_name(self, *args: Any) -> str:
        name: str = self.target.__name__
        return name

    def map_serializer(self, auto_schema: Any, direction: Any) -> dict[str, Any]:
        schema = TypeAdapter(self.target).json_schema(
            ref_template="#/components/schemas/{model}", schema_generator=_Untitled
        )
        return {name: value for name, value in schema.items() if name not in ("$defs", "title")}


class _Untitled(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


class EventBatchSchema(TypedBodySchema):
    target_class = "webhooks_app.api.emission.EventBatch"


class NewEventSchema(TypedBodySchema):
    target_class = "webhooks_app.api.emission.NewEvent"

    def map_serializer(self, auto_schema: Any, direction: Any) -> dict[str, Any]:
        schema = super().map_serializer(auto_schema, direction)
        event_type = auto_schema._map_serializer_field(event_type_field(), direction)  # noqa: SLF001 - as in its documentation
        schema["properties"]["type"] = {
            "allOf": [event_type],
            "description": schema["properties"]["type"]["description"],
        }
        return schema


class TextFieldSchema(OpenApiSerializerFieldExtension):
    target_class = "webhooks_app.api.fields.TextField"
    match_subclasses = True

    def get_name(self) -> str | None:
        name: str | None = self.target.component
        return name

    def map_serializer_field(self, auto_schema: Any, direction: Any) -> dict[str, Any]:
        schema = auto_schema._map_serializer_field(self.target, direction, bypass_extensions=True)  # noqa: SLF001 - as in its documentation
        least = {} if self.target.allow_blank or "minLength" in schema else {"minLength": 1}
        # drf-spectacular adds null again to the schema of an extension.
        return {**schema, "type": "string", **least, **self.target.schema_extras()}


class KnownFieldSchema(OpenApiSerializerFieldExtension):
    target_class = "webhooks_app.api.fields.KnownField"

    def map_serializer_field(self, auto_schema: Any, direction: Any) -> dict[str, Any]:
        return {"type": "string", "x-extensible-enum": list(self.target.choices)}


class FilterFieldSchema(OpenApiSerializerFieldExtension):
    target_class = "webhooks_app.api.fields.FilterField"

    def map_serializer_field(self, auto_schema: Any, direction: Any) -> dict[str, Any]:
        return {"type": "object", "minProperties": 1, "additionalProperties": {}}


Patterns = Sequence[URLPattern | URLResolver]


_generating = Lock()


def document(patterns: Patterns, prefix: str) -> dict[str, Any]:
    """Return the document of the view sets in ``patterns``, mounted at ``prefix`` (such as ``/v1``)."""
    # One at a time: drf-spectacular's settings are changed for all threads meanwhile.
    with _generating:
        limits = (most_in_flight(), settings.EMIT_BODY_BYTES)
        documented_settings = (tuple(settings.RETRY_POLICIES), tuple(settings.SIGNATURES), limits)
        unmounted = _document(tuple(patterns), tuple(public_event_types()), documented_settings)
    return {**unmounted, "paths": {f"{prefix}{path}": item for path, item in unmounted["paths"].items()}}


@lru_cache(maxsize=8)
def _document(
    patterns: Patterns,
    event_types: tuple[EventType[Any], ...],
    documented_settings: tuple[tuple[str, ...], tuple[str, ...], tuple[int, int]],  # only a part of the cache's key
) -> dict[str, Any]:
    generator: Any = SchemaGenerator
    with patched_settings(SETTINGS), translation.override("en"):
        generated: dict[str, Any] = generator(patterns=list(patterns)).get_schema(public=True)
    generated["paths"] = {path.rstrip("/"): item for path, item in generated["paths"].items()}
    mark_fields(generated["components"]["schemas"])
    generated["components"]["schemas"].update(catalogue.schemas(event_types))
    generated["webhooks"] = catalogue.webhooks(event_types)
    return generated
