"""Numbers beside their nouns."""

from __future__ import annotations

import pytest

from webhooks_app.plurals import counted


@pytest.mark.parametrize(
    ("number", "nouns", "said"),
    [
        (1, ("event",), "1 event"),
        (0, ("event",), "0 events"),
        (2_000_000, ("delivery", "deliveries"), "2,000,000 deliveries"),
        (1.0, ("day",), "1 day"),
        (1.5, ("day",), "1.5 days"),
        (1, ("process delivers", "processes deliver"), "1 process delivers"),
    ],
    ids=["one", "none", "many", "one-and-no-more", "a-fraction", "with-a-verb"],
)
def test_a_noun_agrees_with_its_number(number: float, nouns: tuple[str, ...], said: str) -> None:
    assert counted(number, *nouns) == said
