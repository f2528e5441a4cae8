"""``prune_webhooks``"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.core.management.base import CommandError

from webhooks_app.emission import emit
from webhooks_app.models import Delivery, Event, Webhook

from ..support.rows import end_deliveries, make_older
from .conftest import Output

Run = Callable[..., Output]

NOTHING = "0 attempts, 0 bodies, 0 deliveries, 0 events, 0 webhooks, 0 replays, 0 audit entries"
ONE_EVENT = NOTHING.replace("0 deliveries, 0 events", "1 delivery, 1 event")
DATA = {"file_id": "file_1", "user_id": "user_1", "filename": "a.pdf"}


@pytest.fixture
def old_event(webhook: Webhook) -> Event:
    """An event that was emitted and delivered 40 days ago."""
    event = emit("file.deleted", DATA, owner=webhook.owner)
    end_deliveries(state=Delivery.State.SUCCEEDED)
    return make_older(event, timedelta(days=40))


def test_a_dry_run_counts_and_deletes_nothing(run: Run, old_event: Event) -> None:
    output = run("prune_webhooks", "--dry-run", "--events-days", "30")

    assert (
        output.stdout
        == "Would delete 0 attempts, 0 bodies, 1 delivery, 1 event, 0 webhooks, 0 replays, 0 audit entries.\n"
    )
    assert Event.objects.exists()


def test_pruning_deletes_what_the_dry_run_counted(run: Run, old_event: Event) -> None:
    output = run("prune_webhooks", "--events-days", "30")

    assert (
        output.stdout == "Deleted 0 attempts, 0 bodies, 1 delivery, 1 event, 0 webhooks, 0 replays, 0 audit entries.\n"
    )
    assert not Event.objects.exists()
    assert not Delivery.objects.exists()


def test_the_default_retention_comes_from_the_settings(run: Run, old_event: Event, settings: object) -> None:
    run("prune_webhooks")
    assert Event.objects.exists()

    settings.WEBHOOKS_EVENT_RETENTION_DAYS = 30  # type: ignore[attr-defined]
    run("prune_webhooks")
    assert not Event.objects.exists()


def test_pending_deliveries_are_neither_counted_nor_deleted(run: Run, old_event: Event) -> None:
    Delivery.objects.update(state=Delivery.State.PENDING)

    output = run("prune_webhooks", "--dry-run", "--events-days", "30")
    run("prune_webhooks", "--events-days", "30")

    assert output.stdout == f"Would delete {NOTHING}.\n"
    assert Event.objects.count() == Delivery.objects.count() == 1


@pytest.mark.parametrize("option", ["--attempts-days", "--events-days"])
def test_an_invalid_age_prunes_nothing(run: Run, db: None, option: str) -> None:
    with pytest.raises(CommandError, match=f"{option} is 0"):
        run("prune_webhooks", option, "0")


def test_the_time_limit_is_reported(run: Run, old_event: Event) -> None:
    output = run("prune_webhooks", "--events-days", "30", "--max-seconds", "0.000001")

    assert output.stdout == f"Deleted {NOTHING}.\n"
    assert "Run the command again" in output.stderr


def test_an_invalid_time_limit_is_refused(run: Run, db: None) -> None:
    with pytest.raises(CommandError, match="--max-seconds is 0"):
        run("prune_webhooks", "--max-seconds", "0")
