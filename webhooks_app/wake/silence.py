"""No wake-ups in tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

_awake = 0


def is_silent() -> bool:
    """Return True in tests set up by Django's and pytest-django's runners, except in ``waking_workers``."""
    if _awake:
        return False
    utils = sys.modules.get("django.test.utils")
    return hasattr(getattr(utils, "_TestState", None), "saved_data")


@contextmanager
def waking_workers() -> Iterator[None]:
    """Wake workers within this block, in all threads, although a test is running."""
    global _awake  # noqa: PLW0603 - of the whole process
    _awake += 1
    try:
        yield
    finally:
        _awake -= 1
