"""Phrases are found in each kind of text."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import prose

CALQUES = {prose.pattern("green (apples?|pears?)"): "unripe fruit"}
MODULE = '''
def test_it_eats_green_apples():
    """Return

    green pears.
    """
    # A green
    # apple is here.
    raise ValueError("This is a green "
        f"pear: {green}.apple")
'''


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        pytest.param("Red\n\nGreen\napple\n", [3], id="a document"),
        pytest.param(MODULE, [2, 5, 7, 9], id="docstrings, comments, messages and names of tests"),
        pytest.param('{% translate "A green pear." %}{{ green }} // apple', [1], id="a template"),
        pytest.param("Evergreen apples, green appleseed, green apple-pie", [], id="other words"),
        pytest.param("What you see here tells you how it works.", [], id="no phrase"),
    ],
)
def test_a_phrase_is_found_with_its_line(tmp_path: Path, text: str, lines: list[int]) -> None:
    file = tmp_path / "text"
    file.write_text(text)

    expected = [f"{file}:{line}: instead of “" for line in lines]
    found = sorted(prose.find(file, CALQUES | prose.calques()))
    assert [each.partition("“")[0] + "“" for each in found] == expected
    assert all(each.endswith("” write “unripe fruit”") for each in found)
