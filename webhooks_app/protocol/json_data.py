"""The data of events: values that JSON, a receiver's parser or a text column cannot hold, times, and the envelope.

The envelope is the body of a delivery, encoded once and sent unchanged in every attempt.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from itertools import islice
from types import NoneType
from typing import Any, TypeAlias

from ..exceptions import InvalidEventDataError
from ..reasons import ReasonText

Path: TypeAlias = tuple[str | int, ...]
Scalar: TypeAlias = str | int | float | None

MAX_DEPTH = 32
MAX_PROBLEMS = 20
MAX_SEGMENT = 60

MAX_INTEGER_BITS = 1023
"""Beyond this, a parser that reads numbers as doubles gets Infinity, and some parsers refuse the whole text."""

EARLIEST, LATEST = datetime(2, 1, 1, tzinfo=UTC), datetime(9998, 12, 31, tzinfo=UTC)
"""The accepted range of input, so that a time can be shifted slightly and converted to any time zone."""


def problems(data: Mapping[str, object], *, only_json_types: bool = True) -> dict[str, str]:
    """Return the values that cannot be sent, as dotted paths with their problems; at most 20.

    If ``only_json_types`` is False, values of other types are accepted if they can be encoded: members of
    enumerations are checked by their values, collections by their items.
    """
    found = islice(_problems(data, (), only_json_types), MAX_PROBLEMS)
    return {dotted(path): problem for path, problem in found}


def is_plain(value: object) -> bool:
    """Return True for None, and for a string or number that any JSON parser reads back as the same value."""
    kind = type(value)
    if kind is str:
        return not _problem_of_scalar(value)  # type: ignore[arg-type]
    return (kind in (int, float) and not _problem_of_scalar(value)) or kind in (bool, NoneType)  # type: ignore[arg-type]


def dotted(path: Iterable[str | int]) -> str:
    """Return the path as text such as ``outline[0].title``, short and printable for any keys."""
    text = ""
    for segment in path:
        if isinstance(segment, int):
            text += f"[{segment}]"
            continue
        name = segment if len(segment) <= MAX_SEGMENT else f"{segment[:MAX_SEGMENT]}…"
        name = name.replace("\0", "\\0").encode(errors="backslashreplace").decode()
        text += f".{name}" if text else name
    return text


def _problems(container: Any, path: Path, only_json_types: bool) -> Iterator[tuple[Path, str]]:
    if len(path) >= MAX_DEPTH:
        yield path, ReasonText("data_nested", limit=MAX_DEPTH)
        return
    keyed = isinstance(container, Mapping)
    for key, item in container.items() if keyed else enumerate(container):
        if keyed and (problem := _problem_of_key(key)):
            yield path, problem
        elif isinstance(item, Scalar):
            if problem := _problem_of_scalar(item):
                yield (*path, key), problem
        else:
            yield from _problems_of_object(item, (*path, key), only_json_types)


def _problems_of_object(value: object, path: Path, only_json_types: bool) -> Iterator[tuple[Path, str]]:
    if isinstance(value, Mapping | list | tuple):
        yield from _problems(value, path, only_json_types)
    elif isinstance(value, Decimal) and not value.is_finite():
        yield path, ReasonText("data_number", value=str(value))
    elif only_json_types:
        yield path, f"is of type {type(value).__name__}, which JSON does not have"
    elif isinstance(value, deque | set | frozenset):
        yield from _problems(value, path, only_json_types)
    elif isinstance(value, Enum):
        yield from ((path, problem) for _, problem in _problems([value.value], (), only_json_types))
    elif isinstance(value, complex):
        yield path, "is a complex number, which JSON does not have"
    elif isinstance(value, datetime) and value.tzinfo is None:
        yield path, "is a datetime without a time zone; pass an aware datetime"


def _problem_of_key(key: object) -> str:
    if not isinstance(key, str):
        return f"has a key of type {type(key).__name__}; keys must be strings"
    if key.isascii() and "\0" not in key:
        return ""
    problem = _problem_of_text(key)
    return ReasonText("data_key", key=dotted([key]), problem=problem) if problem else ""


def _problem_of_scalar(value: Scalar) -> str:
    if isinstance(value, str):
        return "" if value.isascii() and "\0" not in value else _problem_of_text(value)
    if isinstance(value, float):
        return "" if math.isfinite(value) else ReasonText("data_number", value=str(value))
    if value is not None and value.bit_length() > MAX_INTEGER_BITS:
        return ReasonText("data_integer", limit=str(MAX_INTEGER_BITS))
    return ""


def _problem_of_text(text: str) -> str:
    if "\0" in text:
        return ReasonText("data_nul")
    try:
        text.isascii() or text.encode()
    except UnicodeEncodeError:
        return ReasonText("data_surrogate")
    return ""


def format_time(moment: datetime) -> str:
    """Return ISO 8601 in UTC with six decimals and a Z: ``2026-01-31T12:00:00.123456Z``.

    Raise ValueError for a naive datetime, whose meaning depends on the machine.
    """
    if moment.tzinfo is None:
        raise ValueError(f"{moment} has no time zone; pass an aware datetime.")
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def encode(*, id: str, type: str, created: datetime, data: Mapping[str, Any]) -> bytes:  # noqa: A002
    """Return the envelope as compact UTF-8 JSON with the keys in the specification's order.

    Raise InvalidEventDataError for data that JSON, or a database's text, cannot hold: NaN, Infinity, lone
    surrogates, NUL, keys that are not strings, other types, or more than ``MAX_DEPTH`` levels.
    """
    if found := problems(data):
        raise InvalidEventDataError(type, found)
    return encode_valid(id=id, type=type, created=created, data=data)


def encode_valid(*, id: str, type: str, created: datetime, data: Mapping[str, Any]) -> bytes:  # noqa: A002
    """Return the envelope of data that ``EventType.validate`` has returned, without checking it again."""
    envelope = {"id": id, "type": type, "created": format_time(created), "data": data}
    # Only mappings other than dicts are still unknown to json.
    text = json.dumps(envelope, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=dict)
    return text.encode()
