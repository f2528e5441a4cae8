"""``docs/checks.md`` lists every check."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ID = re.compile(r"webhooks_app\.[EW]\d{3}")


def test_the_documentation_lists_exactly_the_ids_of_the_code() -> None:
    code = "".join(path.read_text() for path in (ROOT / "webhooks_app" / "checks").glob("*.py"))
    page = (ROOT / "docs" / "checks.md").read_text()

    documented = re.findall(rf"^\| `({ID.pattern})`", page, re.MULTILINE)
    assert len(documented) == len(set(documented))
    assert set(documented) == set(ID.findall(code))
