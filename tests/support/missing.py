"""Tests on machines without a server or a program."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def skip_without(reason: object) -> NoReturn:
    """Skip the test, or fail it in CI, where all servers and programs are installed."""
    if os.environ.get("CI"):
        pytest.fail(f"{reason}; in CI nothing may be skipped")
    pytest.skip(str(reason))
