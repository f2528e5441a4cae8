"""An account with a webhook, and what was written down of it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.rows import make_webhook
from webhooks_app.models import AuditEntry


@pytest.fixture
def alice(django_user_model):
    return django_user_model.objects.create_user("alice")


@pytest.fixture
def webhook(alice):
    """A webhook of alice's, of which nothing is written down yet."""
    made = make_webhook(alice)
    AuditEntry.objects.all().delete()
    return made


def written(subject: Any = None) -> list[AuditEntry]:
    """Return what was written down, the oldest first."""
    entries = AuditEntry.objects.all() if subject is None else AuditEntry.objects.about(subject)
    return list(entries.order_by("id"))
