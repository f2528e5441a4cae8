"""Shared formatting of pages."""

from __future__ import annotations

from webhooks_app.pages.display import breakable


def test_a_url_has_break_opportunities_before_path_and_query_parts() -> None:
    shown = breakable("https://api-2.example.com/hooks/1?a=1&b=<2>")

    assert shown == "https://api-2.example.com<wbr>/hooks<wbr>/1<wbr>?a=1<wbr>&amp;b=&lt;2&gt;"
