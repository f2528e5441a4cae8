"""Log records about failing webhooks, with stable attributes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from .conftest import Days

pytestmark = pytest.mark.django_db

PAGE = (Path(__file__).parents[3] / "docs" / "guides" / "monitoring.md").read_text()


def test_the_warning_and_the_disabling_of_a_webhook_are_logged(days: Days, caplog: Any) -> None:
    days.fail_until(6)

    records = [record for record in caplog.records if record.name == "webhooks_app.health"]
    assert [(record.levelname, record.webhook_id) for record in records] == [("WARNING", days.webhook.pk)] * 2
    assert records[0].given_up < records[1].given_up
    [row] = re.findall(r"^\| `webhooks_app.health` \|.*\|(.*)\|$", PAGE, re.MULTILINE)
    assert re.findall(r"`(\w+)`", row) == ["webhook_id", "given_up"]
