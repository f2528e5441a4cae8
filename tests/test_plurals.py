"""Singular and plural after a number."""

from __future__ import annotations

import pytest

from webhooks_app.exceptions import RateLimitedError
from webhooks_app.plurals import counted
from webhooks_app.transport import errors as failures


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


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (str(RateLimitedError(0.2)), "Try again in 1 second."),
        (str(RateLimitedError(1.2)), "Try again in 2 seconds."),
        (failures.timed_out(1).message, "within 1 second."),
        (failures.connect_timed_out(2.5).message, "within 2.5 seconds."),
        (failures.name_timed_out("a.example", 0.98765432).message, "within 0.988 seconds. Check"),
    ],
    ids=["rate", "rates", "answer", "connection", "name"],
)
def test_a_message_that_others_read_agrees_with_its_number(message: str, said: str) -> None:
    assert said in message
