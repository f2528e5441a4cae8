"""The complete OpenAPI 3.1 document: the operations, and the requests to receivers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from threading import Lock
from typing import Any

from django.urls import URLPattern, URLResolver
from django.utils import translation
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.settings import patched_settings

from ..catalogue import openapi
from ..conf import settings
from ..event_types import EventType
from ..models.limits import most_in_flight
from ..models.visibility import public_event_types

Patterns = Sequence[URLPattern | URLResolver]

DESCRIPTION = """Register webhooks, send test events and read the delivery log.

Errors are problem documents (RFC 9457). Strings and parameters with NUL or a lone surrogate are refused with 400.
Lists are paginated, newest first: follow `next`. New fields may be added to records and to event data at any time;
ignore the fields that you do not know."""

SETTINGS: dict[str, Any] = {
    "OAS_VERSION": "3.1.0",
    "TITLE": "Webhooks",
    "DESCRIPTION": DESCRIPTION,
    "VERSION": "1",
    "SCHEMA_PATH_PREFIX": "",
    "SCHEMA_PATH_PREFIX_TRIM": False,
    "SCHEMA_PATH_PREFIX_INSERT": "",
    "COMPONENT_SPLIT_PATCH": False,
    "COMPONENT_SPLIT_REQUEST": False,
    "COMPONENT_NO_READ_ONLY_REQUIRED": False,
    "ENFORCE_NON_BLANK_FIELDS": False,
    "APPEND_PATHS": {},
    "APPEND_COMPONENTS": {},
    "SECURITY": [],
    "PREPROCESSING_HOOKS": [],
    "POSTPROCESSING_HOOKS": ["drf_spectacular.hooks.postprocess_schema_enums"],
    "SORT_OPERATIONS": False,
    "SORT_OPERATION_PARAMETERS": False,
    "ENUM_NAME_OVERRIDES": {},
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "CAMELIZE_NAMES": False,
    "AUTHENTICATION_WHITELIST": None,
    "PARSER_WHITELIST": None,
    "RENDERER_WHITELIST": None,
    "CONTACT": {},
    "LICENSE": {},
    "TOS": None,
    "SERVERS": [],
    "TAGS": [],
    "EXTERNAL_DOCS": {},
    "EXTENSIONS_INFO": {},
    "EXTENSIONS_ROOT": {},
    "WEBHOOKS": [],
}
"""All settings that affect the document, so that it does not depend on the host's own settings."""

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
    generated["components"]["schemas"].update(openapi.schemas(event_types))
    generated["webhooks"] = openapi.webhooks(event_types)
    return generated
