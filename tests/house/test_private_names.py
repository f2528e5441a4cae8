"""Private names of libraries: each use has its reason. If Django changes a name, tests of what uses it fail."""

from __future__ import annotations

import re
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "webhooks_app"


def test_every_use_of_a_private_name_has_its_reason() -> None:
    lines = [line for path in PACKAGE.rglob("*.py") for line in path.read_text().splitlines() if "noqa: SLF001" in line]

    assert len(lines) < 20
    assert [line for line in lines if not re.search(r"noqa: SLF001 - \w+", line)] == []


def test_nothing_but_the_test_kit_reads_django_test() -> None:
    users = {path.parts[len(PACKAGE.parts)] for path in PACKAGE.rglob("*.py") if "django.test" in path.read_text()}

    assert users <= {"testing", "pytest_plugin.py"}
