"""No wake-ups in tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

_awake = 0


def is_silent() -> bool:
    """Return True in a test, as Django's and pytest-django's runners set it up, except in ``waking_workers``."""
    if _awake:
        return False
    utils = sys.modules.get("django.test.utils")
    return hasattr(getattr(utils, "_TestState", None), "saved_data")


@contextmanager
def waking_workers() -> Iterator[None]:
    """Wake workers in this block though a test runs, in all threads."""
    global _awake  # noqa: PLW0603 - of the whole process
    _awake += 1
    try:
        yield
    finally:
        _awake -= 1
