"""The remedy of each state of a webhook, and the failure that its card shows."""

from __future__ import annotations

import pytest

from webhooks_app.models.standing import Standing
from webhooks_app.pages.webhook_card import remedy_of

REMEDIES = {
    Standing.FAILING: ("send_test", "send_missed"),
    Standing.VERIFICATION_FAILED: ("verify", "verify"),
    Standing.DISABLED: ("enable", "enable"),
    Standing.PARTLY_FAILING: ("send_test", "send_missed"),
    Standing.RETRYING: ("send_test", "send_missed"),
    Standing.SLOW: ("send_test", "send_missed"),
    Standing.DELAYED: ("send_test", "send_missed"),
    Standing.HELD_BACK: ("send_test", "send_missed"),
    Standing.PAUSED: ("resume", "resume"),
    Standing.UNVERIFIED: ("verify", "verify"),
    Standing.UNUSED: ("send_test", "send_missed"),
    Standing.HEALTHY: ("send_test", "send_missed"),
}
"""The remedy without missed events, and with some."""


@pytest.mark.parametrize("standing", Standing, ids=str)
def test_each_state_has_one_remedy(standing: Standing) -> None:
    assert (remedy_of(standing).action, remedy_of(standing, 10).action) == REMEDIES[standing]


@pytest.mark.parametrize(
    ("missed", "label"), [(1, "Send 1 missed event"), (30, "Send 30 missed events"), (0, "Send a test event")]
)
def test_the_remedy_names_the_number_of_missed_events(missed: int, label: str) -> None:
    assert remedy_of(Standing.FAILING, missed).label == label
