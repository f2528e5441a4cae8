"""An account with a webhook, and its audit entries."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.rows import make_webhook
from webhooks_app.models import AuditEntry


@pytest.fixture
def webhook(alice):
    """A webhook of alice's without audit entries."""
    made = make_webhook(alice)
    AuditEntry.objects.all().delete()
    return made


def written(subject: Any = None) -> list[AuditEntry]:
    """Return the audit entries, oldest first."""
    entries = AuditEntry.objects.all() if subject is None else AuditEntry.objects.about(subject)
    return list(entries.order_by("id"))
