"""Request bodies: JSON objects in UTF-8, strictly."""

from __future__ import annotations

import json
from collections.abc import Mapping
from io import BytesIO
from typing import IO, Any, NoReturn

from django.core.exceptions import SuspiciousOperation
from django.http import HttpRequest
from rest_framework.exceptions import ParseError, UnsupportedMediaType, ValidationError
from rest_framework.parsers import BaseParser

from ..protocol import json_data
from .errors import WHOLE_BODY, BodyTooLarge, LengthRequired

MAX_INTEGER_DIGITS = 320
"""Enough for every integer that ``json_data`` accepts; parsing longer ones would be slow."""


class StrictJsonParser(BaseParser):
    """Parse a JSON object, and refuse everything that two parsers could read differently."""

    media_type = "application/json"
    max_body_bytes = 64 * 1024

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        request = (parser_context or {})["request"]
        if _announced_length(request) > self.max_body_bytes:
            raise _too_large(self.max_body_bytes)
        return json_object(_read(stream, self.max_body_bytes))


def measure_body(request: HttpRequest, max_bytes: int) -> None:
    """Determine the length of a body without Content-Length, which Django would treat as empty.

    Raise BodyTooLarge, or LengthRequired if the server does not mark the end of a chunked body.
    """
    if request.headers.get("content-length"):
        return
    stream = request.META.get("wsgi.input")
    if stream is not None and not request.META.get("wsgi.input_terminated"):
        if "transfer-encoding" in request.headers:
            raise LengthRequired
        return
    # Without `wsgi.input` the server is an ASGI server, and Django has the whole body already.
    body = _read(request if stream is None else stream, max_bytes)
    request.META["CONTENT_LENGTH"] = str(len(body))
    request._stream, request._read_started = BytesIO(body), False  # type: ignore[attr-defined]  # noqa: SLF001 - Django reads a stream only once


def _announced_length(request: Any) -> int:
    """Return the Content-Length. Some servers pass an invalid one on, which Django treats as 0."""
    text = request.headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < MAX_INTEGER_DIGITS else 0


def _read(stream: Any, max_bytes: int) -> bytes:
    try:
        body: bytes = stream.read(max_bytes + 1)
    except SuspiciousOperation:
        raise
    except Exception:  # noqa: BLE001 - servers raise their own
        message = "The body ended too early, or its chunks are invalid. Send it completely, with a Content-Length."
        raise ParseError(message) from None
    if len(body) > max_bytes:
        raise _too_large(max_bytes)
    return body


def _too_large(max_bytes: int) -> BodyTooLarge:
    return BodyTooLarge(f"The body is too large. Send at most {max_bytes:,} bytes.")


def json_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object in these bytes. Raise ParseError, UnsupportedMediaType or ValidationError."""
    if not json.detect_encoding(body).startswith("utf-8"):
        raise UnsupportedMediaType("", "The body is not in UTF-8.")
    try:
        data = json.loads(body.decode(), object_pairs_hook=_object, parse_int=_integer, parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise ParseError(f"The body is not valid UTF-8 from byte {error.start} on.") from None
    except RecursionError:
        raise ParseError(f"The body is nested deeper than {json_data.MAX_DEPTH} levels.") from None
    except ValueError as error:
        raise ParseError(f"The body is not JSON: {error}.") from None
    if not isinstance(data, dict):
        raise ParseError("The body is valid JSON, but not an object.")
    if problems := json_data.problems(data):
        raise ValidationError({path or WHOLE_BODY: [f"The value {problem}."] for path, problem in problems.items()})
    return data


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    parsed = dict(pairs)
    if len(parsed) < len(pairs):
        raise ValueError("an object has a key twice")
    return parsed


def _integer(digits: str) -> int:
    if len(digits) > MAX_INTEGER_DIGITS:
        raise ValueError(f"an integer has more than {MAX_INTEGER_DIGITS} digits")
    return int(digits)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
