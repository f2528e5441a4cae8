"""The guide about customers' pages shows its pictures, each with a description."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from tests.browser.customers_pictures import CUSTOMERS, HEIGHTS
from tests.browser.pictures import LOOK

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "customers-pages.md"
MOST_BYTES, MOST_PICTURES = 60_000, 10


def test_every_picture_exists_and_is_shown() -> None:
    shown = re.findall(r"!\[[^\]]{10,}\]\(\.\./pictures/customers/([\w-]+)\.png\)", GUIDE.read_text())

    assert sorted(shown) == sorted(HEIGHTS) == sorted(path.stem for path in CUSTOMERS.glob("*.png"))
    assert len(shown) <= MOST_PICTURES


@pytest.mark.parametrize("name", HEIGHTS)
def test_a_picture_is_small_and_has_the_common_width(name: str) -> None:
    content = (CUSTOMERS / f"{name}.png").read_bytes()

    width, height = struct.unpack(">II", content[16:24])
    assert len(content) <= MOST_BYTES
    assert (width, height <= HEIGHTS[name]) == (LOOK.width, True)
