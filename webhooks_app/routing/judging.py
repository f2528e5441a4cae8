"""The evaluation of stored filters, which never raises and never takes longer than it may."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from typing import Any

from ..choices import parse_filter
from ..conf import settings
from ..exceptions import FilterBudgetError
from ..filters import EMISSION_STEPS, WORKER_STEPS, Filter

logger = logging.getLogger("webhooks_app.routing")

MAX_PARSED = 4096
"""Parsed filters in memory, of about 2 KiB each. Parsing takes thirty times as long as evaluating."""

MAX_REMEMBERED = 10_000

_reported: set[tuple[str, int]] = set()
"""Webhooks and filters with a logged problem. A full memory starts anew."""


class Verdict(Enum):
    MATCH = "match"
    MISMATCH = "mismatch"
    PENDING = "pending"
    """The filter cannot be read, or takes more steps than it may. The delivery is held with ``filter_pending``."""


def judge(webhook_id: str, source: str, data: Mapping[str, Any], *, steps: int = EMISSION_STEPS) -> Verdict:
    """Return whether the data satisfies a webhook's filter, given as JSON. A problem is logged once for each filter."""
    found = _parsed(source, tuple(settings.FILTER_OPERATORS))
    if isinstance(found, str):
        _report(webhook_id, source, found)
        return Verdict.PENDING
    try:
        return Verdict.MATCH if found.holds(data, steps=steps) else Verdict.MISMATCH
    except FilterBudgetError:
        if steps >= WORKER_STEPS:
            _report(webhook_id, source, f"it takes more than {steps:,} steps for an event.")
    except Exception as error:  # noqa: BLE001 - operators of the project may raise anything
        _report(webhook_id, source, f"{type(error).__name__}: {error}")
    return Verdict.PENDING


def is_readable(source: str) -> bool:
    """Return True if a filter given as JSON can be parsed."""
    return isinstance(_parsed(source, tuple(settings.FILTER_OPERATORS)), Filter)


@lru_cache(maxsize=MAX_PARSED)
def _parsed(source: str, operators: tuple[str, ...]) -> Filter | str:
    """Return the filter, or the problem with it. ``operators`` are those of the settings, on which it depends."""
    try:
        return parse_filter(json.loads(source))
    except Exception as error:  # noqa: BLE001 - operators of the project may raise anything
        return str(error) or type(error).__name__


def _report(webhook_id: str, source: str, problem: str) -> None:
    if (webhook_id, hash(source)) in _reported:
        return
    if len(_reported) >= MAX_REMEMBERED:
        _reported.clear()
    _reported.add((webhook_id, hash(source)))
    text = "The filter of webhook %s cannot be evaluated, and its deliveries are held until it is changed: %s"
    logger.error(text, webhook_id, problem, extra={"webhook_id": webhook_id})
