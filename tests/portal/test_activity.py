"""The page with an account's entries of the audit log."""

from __future__ import annotations

import pytest

from tests.support.reading import cells
from webhooks_app.models import AuditEntry
from webhooks_app.models.audit import Action, Actor, Via, acting

from .conftest import Customer
from .test_webhooks import text

pytestmark = pytest.mark.django_db


def test_the_reason_of_a_person_is_shown_with_their_name(amina: Customer) -> None:
    amina.post("webhook-action", amina.webhook.pk, "pause", reason="New server")

    page = text(amina.get("activity"))

    assert cells(page, "Reason")[0] == "New server"
    assert cells(page, "By")[0] == "amina the customers' pages"


def test_the_activity_has_neither_names_of_staff_nor_other_accounts_nor_problems(
    amina: Customer, boris: Customer
) -> None:
    with acting(Actor(via=Via.CONSOLE, account=boris.user)):
        amina.webhook.audit(Action.WEBHOOK_PAUSED)
        amina.webhook.audit(Action.PROBLEM_IGNORED)

    page = text(amina.get("activity"))

    assert cells(page, "By")[0] == "console"
    assert "problem" not in "".join(cells(page, "Action"))
    assert boris.webhook.pk not in page
    assert AuditEntry.objects.filter(subject=boris.webhook.pk).exists()
