"""Sentences about errors become fields of the reference."""

from __future__ import annotations

import pytest

from docs.rendering.raises import with_fields


@pytest.mark.parametrize(
    ("docstring", "expected"),
    [
        pytest.param("Delete it.", ["Delete it.", "", ""], id="no errors"),
        pytest.param(
            "Pause it. Raises KeyError for a new one. It is fast.",
            ["Pause it. It is fast.", "", ":raises KeyError: for a new one", ""],
            id="one error between sentences",
        ),
        pytest.param(
            "Pause it.\n\nRaises ValueError, app.errors.BadError if it\nis new, and KeyError.",
            ["Pause it.", "", ":raises ValueError: ", ":raises BadError: if it is new", ":raises KeyError: ", ""],
            id="several errors in a paragraph",
        ),
        pytest.param("Raises as ``plan``.", ["Raises as ``plan``.", "", ""], id="those of another function"),
    ],
)
def test_a_sentence_about_errors_becomes_fields(docstring: str, expected: list[str]) -> None:
    assert with_fields(docstring.split("\n")) == expected
