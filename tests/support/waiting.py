"""Waiting for another process."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest


def wait_until(
    is_so: Callable[[], bool], explain: Callable[[], object] = lambda: "", *, timeout_seconds: float = 60
) -> None:
    deadline = time.monotonic() + timeout_seconds
    while not is_so():
        if time.monotonic() > deadline:
            pytest.fail(f"Still not so after {timeout_seconds:.0f} s. {explain()}")
        time.sleep(0.05)


def wait_for_next_millisecond() -> None:
    """Wait so that the next identifier is greater than those made before."""
    time.sleep(0.002)
