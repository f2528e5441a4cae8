"""The files of the source that pages name exist."""

from __future__ import annotations

import re

import pytest

from .pages import DOCS, ROOT

PATH = re.compile(r"`((?:\w+/)*\w+(?:\.py|\.sql|/))`")
FILES = sorted(set(PATH.findall((DOCS / "why" / "design.md").read_text().partition("## Find a rule")[2])))


@pytest.mark.parametrize("path", [path for path in FILES if path != "webhooks_app/"])
def test_a_file_on_the_design_page_exists(path: str) -> None:
    assert (ROOT / "webhooks_app" / path).exists()


def test_the_design_page_names_files() -> None:
    assert len(FILES) > 30
