"""Shared formatting of pages."""

from __future__ import annotations

import html
import re
from datetime import timedelta

import pytest
from django.utils import timezone
from django.utils.html import strip_tags
from django.utils.translation import override

from webhooks_app.pages.display import breakable, coloured_json, in_time, missed_in_words, pretty_json
from webhooks_app.replays.missed import Missed


def test_a_url_has_break_opportunities_before_path_and_query_parts() -> None:
    shown = breakable("https://api-2.example.com/hooks/1?a=1&b=<2>")

    assert shown == "https://api-2.example.com<wbr>/hooks<wbr>/1<wbr>?a=1<wbr>&amp;b=&lt;2&gt;"


@pytest.mark.parametrize(
    "text",
    [
        '{"a": "b\\"<i>: 1", "n": [-1.5e3, true, null]}',
        "[]",
        '["unclosed',
        "<b>down</b>",
        '{"a": 1} & more',
        "x" * 20_000,
    ],
)
def test_coloured_json_has_the_same_text(text: str) -> None:
    shown = coloured_json(text)

    assert html.unescape(strip_tags(shown)) == text


def test_names_strings_and_values_of_json_are_told_apart() -> None:
    shown = coloured_json(pretty_json('{"a": "b: 1", "n": 2}'))

    assert re.findall(r"<span[^>]*-(\w+)\">(.*?)</span>", shown) == [
        ("name", "&quot;a&quot;"),
        ("text", "&quot;b: 1&quot;"),
        ("name", "&quot;n&quot;"),
        ("value", "2"),
    ]


@pytest.mark.parametrize(
    ("seconds", "german"), [(0.04, "0 s"), (6.14, "6,1 s"), (9.96, "10 s"), (42.4, "42 s"), (200, "3 min")]
)
def test_short_spans_are_shown_to_a_tenth_in_the_format_of_the_language(seconds: float, german: str) -> None:
    with override("de"):
        assert in_time(timedelta(seconds=seconds)) == german


@pytest.mark.parametrize(
    ("numbers", "has_more", "english", "german"),
    [
        pytest.param(
            [0, 0],
            False,
            "No event was missed: each was delivered, or is still attempted.",
            "Kein Ereignis wurde verpasst: Jedes wurde zugestellt oder wird noch versucht.",
            id="none",
        ),
        pytest.param([1], False, "1 event was missed.", "1 Ereignis wurde verpasst.", id="one"),
        pytest.param([2, 3], False, "5 events were missed.", "5 Ereignisse wurden verpasst.", id="several"),
        pytest.param(
            [1, 0], True, "At least 1 event was missed.", "Mindestens 1 Ereignis wurde verpasst.", id="at-least-one"
        ),
        pytest.param(
            [1200],
            True,
            "At least 1,200 events were missed.",
            "Mindestens 1.200 Ereignisse wurden verpasst.",
            id="at-least-several",
        ),
        pytest.param(
            [0, 0],
            True,
            "None of the first events was missed. This page has examined no others.",
            "Von den ersten Ereignissen wurde keines verpasst. Andere hat diese Seite nicht untersucht.",
            id="none-of-the-first",
        ),
    ],
)
def test_missed_events_are_described_as_far_as_they_were_examined(
    numbers: list[int], has_more: bool, english: str, german: str
) -> None:
    first, *others = (Missed(number, timezone.now()) for number in numbers)
    counts = [first._replace(has_more=has_more), *others]

    for language, sentence in (("en", english), ("de", german)):
        with override(language):
            assert missed_in_words(counts) == sentence
