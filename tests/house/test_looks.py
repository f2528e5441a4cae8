"""Tests of pages name no class of CSS, so that a new look breaks none of them. ``tests/support/reading.py`` helps."""

from __future__ import annotations

import re
from pathlib import Path

CLASS = re.compile(r"\bclass=|errorlist|webhooks-(bad|good|late)|(click|locator|query\w+|select\w*|wait\w+)\([\"']\.")


def test_a_test_of_a_page_names_no_class() -> None:
    folders = [Path(__file__).parents[1] / name for name in ("admin", "portal", "pages", "browser")]
    lines = [line for folder in folders for path in folder.glob("test_*.py") for line in path.read_text().splitlines()]

    assert [line for line in lines if CLASS.search(line)] == []
