"""``pause_webhook`` and ``resume_webhook``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.core.management.base import CommandError

from webhooks_app import emit
from webhooks_app.models import Webhook

from .conftest import Output

Run = Callable[..., Output]

pytestmark = pytest.mark.django_db

DATA = {"file_id": "file_1", "user_id": "user_1", "filename": "a.pdf"}


def test_a_webhook_is_paused_and_resumed_and_what_waits_is_counted(run: Run, webhook: Webhook, owner: Any) -> None:
    emit("file.deleted", DATA, owner=owner)

    paused = run("pause_webhook", webhook.id)
    assert Webhook.objects.get().paused_at is not None
    resumed = run("resume_webhook", webhook.id)

    assert (paused.stdout, resumed.stdout) == ("1\n", "1\n")
    assert Webhook.objects.get().paused_at is None


@pytest.mark.parametrize(("verb", "reason"), [("pause", "is disabled"), ("resume", "is not paused")])
def test_what_the_state_forbids_is_said(run: Run, webhook: Webhook, verb: str, reason: str) -> None:
    webhook.disable("by hand")

    with pytest.raises(CommandError, match=reason):
        run(f"{verb}_webhook", webhook.id)


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_a_webhook_that_is_not_there_is_refused(run: Run, webhook: Webhook, verb: str) -> None:
    webhook.soft_delete()

    with pytest.raises(CommandError, match="no webhook"):
        run(f"{verb}_webhook", webhook.id)
