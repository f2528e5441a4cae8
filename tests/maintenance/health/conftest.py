"""A webhook with given-up deliveries on consecutive days."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import TestCase

from webhooks_app.maintenance.announcements import announce_failing, announce_stopped
from webhooks_app.maintenance.health import take_in, watch
from webhooks_app.maintenance.mailing import send_due
from webhooks_app.maintenance.outgoing import wait_for_mails
from webhooks_app.maintenance.rollups.folding import fold
from webhooks_app.models import Webhook
from webhooks_app.signals import webhook_disabled, webhook_failing, webhook_recovered

from ...delivery.conftest import ManualClock
from ...support.rows import make_webhook
from ..rollups.conftest import make_tally

SIGNALS = {"failing": webhook_failing, "recovered": webhook_recovered, "disabled": webhook_disabled}


class Days:
    """The passing of time for a webhook, with a fold, an evaluation of all webhooks, and their mails."""

    def __init__(self, webhook: Webhook, clock: ManualClock | None = None) -> None:
        self.webhook = webhook
        self.clock = clock or ManualClock()
        self.began_at = self.clock()

    @property
    def day(self) -> float:
        return (self.clock() - self.began_at) / timedelta(days=1)

    def give_up(self) -> None:
        make_tally(self.clock(), **{self.webhook.pk: {"given_up": 1, "given_up_since_success": 1}})

    def succeed(self) -> None:
        make_tally(self.clock(), **{self.webhook.pk: {"succeeded_at_once": 1}})

    def look(self) -> None:
        """Evaluate all webhooks, and wait for the emails."""
        self.look_only()
        wait_for_mails(30)

    def look_only(self) -> None:
        with TestCase.captureOnCommitCallbacks(execute=True):
            fold("default", also=lambda folded: take_in("default", folded))
            watch("default", self.clock())
            while announce_failing("default", self.clock()):
                pass
            announce_stopped("default", self.clock())
        self.send()

    def send(self) -> None:
        """Send the mails that are due."""
        has_more = True
        while has_more:
            with TestCase.captureOnCommitCallbacks(execute=True):
                has_more = send_due("default", self.clock())

    def fail_until(self, day: float, every_hours: float = 6) -> None:
        """Give up deliveries until that day, with evaluations in between."""
        while self.day < day:
            self.give_up()
            self.look()
            self.clock.advance(3600 * every_hours)
        self.look()


@pytest.fixture
def owner(django_user_model: Any) -> Any:
    return django_user_model.objects.create_user("alice", email="alice@example.com")


@pytest.fixture
def webhook(owner: Any) -> Webhook:
    return make_webhook(owner)


@pytest.fixture
def days(webhook: Webhook, signals: Any) -> Days:
    return Days(webhook)


def name_of(signal: str, arguments: dict[str, Any]) -> str:
    return "warning" if arguments.get("is_warning") else signal


@pytest.fixture
def signals(db: None, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The signals received: name and arguments. The second one about a failure is named "warning"."""
    found: list[tuple[str, dict[str, Any]]] = []
    handlers = {
        name: (lambda sender, signal, name=name, **arguments: found.append((name_of(name, arguments), arguments)))
        for name in SIGNALS
    }
    for name, signal in SIGNALS.items():
        signal.connect(handlers[name])
    yield found
    for name, signal in SIGNALS.items():
        signal.disconnect(handlers[name])
