"""``replay_webhooks``"""

from __future__ import annotations

import io
import signal
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.management.base import CommandError
from django.utils import timezone

from webhooks_app import emit
from webhooks_app.models import Delivery, Event, Replay, Webhook

from ..support.waiting import wait_until
from .conftest import Output

Run = Callable[..., Output]
DATA = {"file_id": "file_1", "user_id": "user_1", "filename": "a.pdf"}

pytestmark = pytest.mark.django_db


@pytest.fixture
def missed(webhook: Webhook, owner: Any) -> list[Event]:
    """Events never queued for the webhook."""
    Webhook.objects.update(created_at=timezone.now() - timedelta(days=1))
    events = [emit("file.deleted", DATA, owner=owner) for _ in range(3)]
    Delivery.objects.all().delete()
    return events


def test_a_dry_run_counts_and_shows_and_sends_nothing(run: Run, webhook: Webhook, missed: list[Event]) -> None:
    output = run("replay_webhooks", webhook.id, "--dry-run")

    replay = Replay.objects.get()
    assert output.stdout == f"{replay.pk} ready: 0 of 3 queued\n"
    assert f"3 events to {webhook.url}" in output.stderr
    assert all(event.pk in output.stderr for event in missed)
    assert not Delivery.objects.exists()


def test_the_counted_events_are_sent_later(run: Run, webhook: Webhook, missed: list[Event]) -> None:
    replay_id = run("replay_webhooks", webhook.id, "--dry-run").stdout.split()[0]

    assert run("replay_webhooks", replay_id, "--yes").stdout == f"{replay_id} done: 3 of 3 queued\n"

    assert set(Delivery.objects.values_list("event_id", flat=True)) == {event.pk for event in missed}


def test_a_detached_replay_is_finished_by_the_workers(run: Run, webhook: Webhook, missed: list[Event]) -> None:
    output = run(
        "replay_webhooks", webhook.id, "--yes", "--detach", "--rate", "5", "--since", "2h", "--state", "missed"
    )

    replay = Replay.objects.get()
    assert output.stdout == f"{replay.pk} running: 0 of 3 queued\n"
    assert (replay.rate, replay.states) == (5, ["missed"])
    assert abs(timezone.now() - timedelta(hours=2) - replay.since) < timedelta(minutes=5)


@pytest.mark.parametrize(("answer", "state", "number"), [("y", "done", 3), ("", "ready", 0)], ids=["yes", "no"])
def test_a_terminal_asks_for_confirmation(
    run: Run,
    webhook: Webhook,
    missed: list[Event],
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    state: str,
    number: int,
) -> None:
    terminal = io.StringIO(f"{answer}\n")
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr("sys.stdin", terminal)

    output = run("replay_webhooks", webhook.id)

    assert "Send them? [y/N]" in output.stderr
    assert (Replay.objects.get().state, Delivery.objects.count()) == (state, number)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--since", "yesterday"], "is not a valid time"),
        (["--since", "2026-02-01", "--until", "2026-01-01"], "until: Give a time after 2026-"),
        (["--type", "no.such_type"], "not subscribed"),
        (["--type", "file.uploaded"], "not subscribed"),
        ([], "Add --yes to skip the question"),
    ],
    ids=["no-time", "backwards", "unknown-type", "other-type", "nobody"],
)
def test_invalid_arguments_are_refused(
    run: Run, webhook: Webhook, missed: list[Event], arguments: list[str], reason: str
) -> None:
    with pytest.raises(CommandError, match=reason):
        run("replay_webhooks", webhook.id, *arguments)

    assert not Delivery.objects.exists()


def test_the_selection_of_a_replay_is_fixed(run: Run, webhook: Webhook, missed: list[Event]) -> None:
    replay_id = run("replay_webhooks", webhook.id, "--dry-run").stdout.split()[0]

    with pytest.raises(CommandError, match="Remove --rate"):
        run("replay_webhooks", replay_id, "--rate", "5")
    with pytest.raises(CommandError, match="Unknown replay"):
        run("replay_webhooks", "rpl_unknown")


def test_a_replay_to_a_disabled_webhook_is_counted_but_not_sent(
    run: Run, webhook: Webhook, missed: list[Event]
) -> None:
    webhook.disable("Out of order.")

    with pytest.raises(CommandError, match="Out of order"):
        run("replay_webhooks", webhook.id, "--yes")

    assert Replay.objects.get().matched == 3


@pytest.mark.only_on("sqlite")  # It needs a separate process, and hardly depends on the database.
@pytest.mark.django_db(transaction=True)
def test_an_interrupted_replay_pauses_and_can_be_continued(begin: Any, webhook: Webhook, missed: list[Event]) -> None:
    process = begin("replay_webhooks", webhook.id, "--yes", "--rate", "0.1")
    wait_until(lambda: Replay.objects.filter(queued=1).exists())

    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)

    replay = Replay.objects.get()
    assert (process.returncode, replay.state) == (130, "paused")
    assert f"To continue: manage.py replay_webhooks {replay.pk}" in stderr
