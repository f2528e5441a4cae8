"""The body of a delivery, encoded once and sent unchanged in every attempt."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ..exceptions import InvalidEventDataError
from . import json_data
from .json_data import format_time


def encode(*, id: str, type: str, created: datetime, data: Mapping[str, Any]) -> bytes:  # noqa: A002
    """Return the envelope as compact UTF-8 JSON with the keys in the specification's order.

    Raises InvalidEventDataError for data that JSON, or a database's text, cannot hold: NaN, Infinity, lone
    surrogates, NUL, keys that are not strings, other types, or more than ``json_data.MAX_DEPTH`` levels.
    """
    if problems := json_data.problems(data):
        raise InvalidEventDataError(type, problems)
    return encode_valid(id=id, type=type, created=created, data=data)


def encode_valid(*, id: str, type: str, created: datetime, data: Mapping[str, Any]) -> bytes:  # noqa: A002
    """Return the envelope of data that ``EventType.validate`` has returned, without checking it again."""
    envelope = {"id": id, "type": type, "created": format_time(created), "data": data}
    # Only mappings other than dicts are still unknown to json.
    text = json.dumps(envelope, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=dict)
    return text.encode()
