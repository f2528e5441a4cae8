"""The page about the console shows a picture of every screen."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from tests.browser.pictures import DIRECTORY, LOOK, PICTURES

from .test_security_page import anchors

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "console.md").read_text()
SECTIONS = re.split(r"^## (?!Permissions|Languages)", PAGE, flags=re.MULTILINE)[1:]

MOST_BYTES, MOST_PICTURES = 150_000, 20


def test_every_picture_exists_and_is_shown() -> None:
    shown = re.findall(r"!\[[^\]]{10,}\]\(pictures/([\w-]+)\.png\)", PAGE)

    assert sorted(shown) == sorted(PICTURES) == sorted(path.stem for path in DIRECTORY.glob("*.png"))
    assert len(shown) <= MOST_PICTURES


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.partition("\n")[0])
def test_every_section_about_a_page_has_a_picture(section: str) -> None:
    assert "](pictures/" in section


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_small_and_has_the_common_width(name: str) -> None:
    content = (DIRECTORY / f"{name}.png").read_bytes()

    width, height = struct.unpack(">II", content[16:24])
    assert len(content) <= MOST_BYTES
    assert (width, height <= PICTURES[name].height) == (LOOK.width, True)


@pytest.mark.parametrize("link", re.findall(r"(?<!!)\[[^\]]+\]\(([^):]+)\)", PAGE))
def test_every_link_has_a_target(link: str) -> None:
    path, _, anchor = link.partition("#")
    page = DOCS / path if path else DOCS / "console.md"

    assert page.exists()
    assert not anchor or anchor in anchors(page)
