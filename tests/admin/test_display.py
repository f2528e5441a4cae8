"""What several pages show alike."""

from __future__ import annotations

from webhooks_app.admin.display import breakable


def test_a_url_is_broken_before_the_parts_of_its_path_and_query() -> None:
    shown = breakable("https://api-2.example.com/hooks/1?a=1&b=<2>")

    assert shown == "https://api-2.example.com<wbr>/hooks<wbr>/1<wbr>?a=1<wbr>&amp;b=&lt;2&gt;"
