"""Differences between databases are confined to ``webhooks_app/database/``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOME = ROOT / "webhooks_app" / "database"
DIFFERENCE = re.compile(
    r"\bvendor\b|\bas_(?:mysql|oracle|postgresql|sqlite)\b|django\.db\.backends\.(?:mysql|oracle|postgresql|sqlite3)\b"
)


def differences(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if DIFFERENCE.search(line)]


def modules() -> list[Path]:
    found = [path for folder in ("webhooks_app", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    return [path for path in found if HOME not in path.parents]


def test_only_dialects_check_the_vendor() -> None:
    found = {str(path.relative_to(ROOT)): lines for path in modules() if (lines := differences(path.read_text()))}

    assert found == {}


@pytest.mark.parametrize(
    "line",
    [
        pytest.param('if connection.vendor == "sqlite":', id="vendor"),
        pytest.param("def as_mysql(self, compiler, connection):", id="hook of an expression"),
        pytest.param("from django.db.backends.postgresql.psycopg_any import is_psycopg3", id="backend"),
    ],
)
def test_a_check_of_the_vendor_is_recognized(line: str) -> None:
    assert differences(line) == [line]
