"""``forget_webhook_owner``"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from django.core.management.base import CommandError

from tests.support.rows import emit_one, make_webhook
from webhooks_app.models import AuditEntry, Event, Webhook

from .conftest import Output

Run = Callable[..., Output]


@pytest.fixture
def history(owner: Any) -> None:
    make_webhook(owner)
    emit_one(owner)


@pytest.mark.usefixtures("history")
def test_all_rows_of_the_owner_are_deleted(run: Run, owner: Any) -> None:
    output = run("forget_webhook_owner", "amina", "--yes")

    assert output.stdout == "Deleted 1 webhook, 0 API keys, 1 event, 1 delivery, 0 attempts.\n"
    assert not Webhook.objects.exists()
    assert not Event.objects.exists()
    assert AuditEntry.objects.get(action="webhook.deleted").via == "command"


@pytest.mark.usefixtures("history")
def test_a_dry_run_counts_and_deletes_nothing(run: Run) -> None:
    output = run("forget_webhook_owner", "amina", "--dry-run")

    assert output.stdout == "Would delete 2 events and deliveries of amina.\n"
    assert Webhook.objects.active().exists()


@pytest.mark.usefixtures("history")
def test_without_a_terminal_it_needs_the_option(run: Run) -> None:
    with pytest.raises(CommandError, match="--yes"):
        run("forget_webhook_owner", "amina")

    assert Webhook.objects.exists()


@pytest.mark.usefixtures("history")
@pytest.mark.parametrize(("answer", "is_kept"), [("n", True), ("", True), ("y", False)])
def test_the_command_asks_for_confirmation(
    run: Run, monkeypatch: pytest.MonkeyPatch, answer: str, is_kept: bool
) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda: answer)

    output = run("forget_webhook_owner", "amina")

    assert "2 events and deliveries of amina? [y/N]" in output.stderr
    assert Webhook.objects.exists() is is_kept


def test_an_unknown_owner_is_refused(run: Run, db: None) -> None:
    with pytest.raises(CommandError, match="No user has the username or the primary key 'nobody'"):
        run("forget_webhook_owner", "nobody", "--yes")
