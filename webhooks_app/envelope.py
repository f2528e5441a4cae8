"""The bytes of a delivery, made once and sent unchanged at every attempt (interface: Event envelope)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from .exceptions import InvalidEventDataError

MAX_DEPTH = 32


def encode(*, id: str, type: str, created: datetime, data: Mapping[str, Any]) -> bytes:  # noqa: A002
    """Return the envelope as compact UTF-8 JSON with the keys in the specification's order.

    Raises InvalidEventDataError for data that JSON, or a database's text, cannot hold: NaN, Infinity, lone
    surrogates, NUL, keys that are not strings, other types, or more than ``MAX_DEPTH`` levels.
    """
    problems = dict(_problems(data, path="", depth=1))
    if problems:
        raise InvalidEventDataError(type, problems)
    envelope = {"id": id, "type": type, "created": format_time(created), "data": data}
    return json.dumps(envelope, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def format_time(moment: datetime) -> str:
    """Return ISO 8601 in UTC with six decimals and a Z: ``2026-01-31T12:00:00.123456Z``."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _problems(value: object, *, path: str, depth: int) -> Iterator[tuple[str, str]]:
    if depth > MAX_DEPTH:
        yield path, f"is nested deeper than {MAX_DEPTH} levels"
    elif isinstance(value, str):
        yield from _text_problems(value, path)
    elif isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            yield path, f"{value} is not a JSON number"
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                yield path, f"has the key {key!r}, which is not a string"
                continue
            inner = f"{path}.{key}" if path else key
            yield from _text_problems(key, inner)
            yield from _problems(item, path=inner, depth=depth + 1)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _problems(item, path=f"{path}[{index}]", depth=depth + 1)
    elif not (value is None or isinstance(value, bool | int)):
        yield path, f"is of type {value.__class__.__name__}, which JSON does not have"


def _text_problems(text: str, path: str) -> Iterator[tuple[str, str]]:
    if "\0" in text:
        yield path.replace("\0", "\\0"), "contains NUL"
    try:
        text.encode()
    except UnicodeEncodeError:
        yield path.encode(errors="backslashreplace").decode(), "contains a lone surrogate"
