"""``docs/guides/monitoring.md`` describes each metric."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "monitoring.md").read_text()
OURS = re.compile(r"\bwebhooks_(?!app)\w+")


def test_the_table_lists_exactly_the_metrics(names: set[str]) -> None:
    table = PAGE.partition("### Metrics")[2].partition("\n##")[0]
    rows = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]

    assert {name for row in rows for name in OURS.findall(row)} == names
