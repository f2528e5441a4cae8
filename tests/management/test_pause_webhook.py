"""``pause_webhook`` and ``resume_webhook``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.core.management.base import CommandError
from django.db import connection
from django.test.utils import CaptureQueriesContext

from webhooks_app import emit
from webhooks_app.models import Delivery, Webhook

from .conftest import Output

Run = Callable[..., Output]

pytestmark = pytest.mark.django_db

DATA = {"file_id": "file_1", "user_id": "user_1", "filename": "a.pdf"}


def test_pause_and_resume_print_the_number_of_waiting_deliveries(run: Run, webhook: Webhook, owner: Any) -> None:
    emit("file.deleted", DATA, owner=owner)

    paused = run("pause_webhook", webhook.id)
    assert Webhook.objects.get().paused_at is not None
    resumed = run("resume_webhook", webhook.id)

    assert (paused.stdout, resumed.stdout) == ("1\n", "1\n")
    assert Webhook.objects.get().paused_at is None


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_finished_deliveries_are_not_read(run: Run, webhook: Webhook, verb: str) -> None:
    if verb == "resume":
        webhook.pause()

    with CaptureQueriesContext(connection) as queries:
        run(f"{verb}_webhook", webhook.id)

    assert [query["sql"] for query in queries if Delivery._meta.db_table in query["sql"]] == []


@pytest.mark.parametrize(("verb", "reason"), [("pause", "is disabled"), ("resume", "is not paused")])
def test_an_operation_not_allowed_by_the_state_is_refused(run: Run, webhook: Webhook, verb: str, reason: str) -> None:
    webhook.disable("by hand")

    with pytest.raises(CommandError, match=reason):
        run(f"{verb}_webhook", webhook.id)


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_an_unknown_webhook_is_refused(run: Run, webhook: Webhook, verb: str) -> None:
    webhook.soft_delete()

    with pytest.raises(CommandError, match="Unknown webhook"):
        run(f"{verb}_webhook", webhook.id)
