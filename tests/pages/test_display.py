"""Shared formatting of pages."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils.translation import override

from webhooks_app.pages.display import breakable, in_time


def test_a_url_has_break_opportunities_before_path_and_query_parts() -> None:
    shown = breakable("https://api-2.example.com/hooks/1?a=1&b=<2>")

    assert shown == "https://api-2.example.com<wbr>/hooks<wbr>/1<wbr>?a=1<wbr>&amp;b=&lt;2&gt;"


@pytest.mark.parametrize(
    ("seconds", "german"), [(0.04, "0 s"), (6.14, "6,1 s"), (9.96, "10 s"), (42.4, "42 s"), (200, "3 min")]
)
def test_short_spans_are_shown_to_a_tenth_in_the_format_of_the_language(seconds: float, german: str) -> None:
    with override("de"):
        assert in_time(timedelta(seconds=seconds)) == german
