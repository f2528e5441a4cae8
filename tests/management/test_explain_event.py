"""``explain_event``"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.core.management.base import CommandError

from webhooks_app.models import Webhook

from ..support.rows import emit_one, end_deliveries, make_recovering, make_webhook
from .conftest import Output

Run = Callable[..., Output]


def test_each_webhook_has_a_line_with_its_reason(run: Run, owner: Any) -> None:
    filtered = make_webhook(owner, filter={"error": "disk full"})
    sent = make_webhook(owner)
    event = emit_one(owner)

    assert run("explain_event", event.pk).stdout.splitlines() == [
        f"{sent.pk} sent ({event.deliveries.get().pk}): It was active, and subscribed to the type.",
        f'{filtered.pk} not sent: data.error is "No outline", the filter requires "disk full".',
    ]


def test_the_next_recovery_attempt_of_a_failing_receiver_is_told(run: Run, owner: Any) -> None:
    webhook = make_webhook(owner)
    event = emit_one(owner)
    end_deliveries(state="given_up")
    make_recovering(webhook)

    (line,) = run("explain_event", event.pk).stdout.splitlines()

    assert "Its receiver now: Failing. 1 event was given up since" in line
    assert line.endswith("The next recovery attempt, with the oldest missed event, is in 4 min.")


def test_control_characters_of_an_owner_are_escaped(run: Run, owner: Any) -> None:
    webhook = make_webhook(owner)
    Webhook.objects.update(filter={"a\x1b[2J\n": 1})

    output = run("explain_event", emit_one(owner).pk)

    assert output.stdout == f"{webhook.pk} not sent: data.a\\x1b[2J\\n is missing, the filter requires 1.\n"


def test_an_event_without_candidates_causes_a_note(run: Run, owner: Any) -> None:
    event = emit_one(owner)

    output = run("explain_event", event.pk)

    assert output.stdout == ""
    assert "Neither the event's owner" in output.stderr


def test_an_unknown_event_is_refused(run: Run, db: None) -> None:
    with pytest.raises(CommandError, match="Unknown event"):
        run("explain_event", "evt_1")
