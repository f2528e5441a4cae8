"""What helps in each state of a webhook, and what stands out."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from webhooks_app.models import Webhook
from webhooks_app.models.standing import Standing
from webhooks_app.models.webhook import Order
from webhooks_app.pages.health import limit_of
from webhooks_app.pages.webhook_card import Circumstances, Remedy, advice_of, is_disabled_by_person, remedies_of
from webhooks_app.reasons import ReasonText

REMEDIES = {
    Standing.FAILING: ("send_test", "send_test"),
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
"""What helps first without missed events, and with some."""


def remedies(standing: Standing, **more: Any) -> list[Remedy]:
    return remedies_of(Circumstances(standing=standing, **more))


def remedy(standing: Standing, **more: Any) -> Remedy:
    return remedies(standing, **more)[0]


def advice(standing: Standing, **more: Any) -> str:
    return advice_of(Circumstances(standing=standing, **more))


@pytest.mark.parametrize("standing", Standing, ids=str)
def test_each_state_has_one_remedy(standing: Standing) -> None:
    assert (remedy(standing).action, remedy(standing, missed=10).action) == REMEDIES[standing]


def test_a_paused_webhook_is_resumed_before_it_is_verified() -> None:
    stopped = (Standing.UNVERIFIED, Standing.VERIFICATION_FAILED, Standing.DISABLED)

    assert [remedy(each, is_paused=True).action for each in stopped] == ["resume", "resume", "enable"]


def test_a_new_url_is_verified_unless_events_were_missed() -> None:
    found = [remedy(Standing.HEALTHY, missed=missed, changes_url=True).action for missed in (0, 1)]

    assert found == ["verify", "send_missed"]


@pytest.mark.parametrize("standing", [each for each in Standing if each is not Standing.SLOW], ids=str)
def test_a_card_says_what_to_do(standing: Standing) -> None:
    assert advice(standing, missed=1)


def test_a_card_says_what_an_order_and_a_limit_wait_for() -> None:
    assert "the one before it" in advice(Standing.HELD_BACK)
    assert "Raise the limit" in advice(Standing.HELD_BACK, limit="rate_limit")


def test_a_webhook_that_somebody_disabled_needs_no_repair() -> None:
    given_up = ReasonText("all_given_up", days=5, number="12", since="2026-11-23 10:00")
    reasons = (given_up, ReasonText("disabled_by_owner"), "Replaced by the rendering farm")

    found = [is_disabled_by_person(Webhook(status="disabled", status_reason=each)) for each in reasons]

    assert found == [False, True, True]
    assert "receiver" in advice(Standing.DISABLED)
    assert "receiver" not in advice(Standing.DISABLED, is_stopped_by_person=True)


@pytest.mark.parametrize(
    ("missed", "label"), [(1, "Send 1 missed event"), (30, "Send 30 missed events"), (0, "Send a test event")]
)
def test_the_remedy_names_the_number_of_missed_events(missed: int, label: str) -> None:
    assert remedy(Standing.PARTLY_FAILING, missed=missed).label == label


def test_missed_events_are_sent_once_a_test_event_has_arrived() -> None:
    found = [remedies(Standing.FAILING, missed=3, answers_test=arrived) for arrived in (False, True)]
    words = [advice(Standing.FAILING, missed=3, answers_test=arrived) for arrived in (False, True)]

    assert [[each.action for each in some] for some in found] == [
        ["send_test", "send_missed"],
        ["send_missed", "send_test"],
    ]
    assert words == [
        "First fix the receiver. A test event shows whether it works. Then send the missed events.",
        "A test event has arrived. Send the missed events.",
    ]


@pytest.mark.parametrize("standing", Standing, ids=str)
def test_at_most_the_first_remedy_stands_out(standing: Standing) -> None:
    names = ("is_paused", "changes_url", "is_verifying", "is_stopped_by_person", "answers_test", "has_front")

    for missed, *known in product((0, 3), *[(False, True)] * len(names)):
        others = remedies(standing, missed=missed, **dict(zip(names, known, strict=True)))[1:]
        assert not any(each.is_main for each in others)


def test_what_does_not_help_does_not_stand_out() -> None:
    calm = (Standing.HEALTHY, Standing.SLOW, Standing.DELAYED, Standing.HELD_BACK)

    loud = [standing for standing in Standing if remedy(standing).is_main]

    assert set(loud) == set(Standing) - set(calm)
    assert not remedy(Standing.RETRYING, has_front=True).is_main
    assert not remedy(Standing.FAILING, missed=3, has_front=True).is_main
    assert not remedy(Standing.DISABLED, is_stopped_by_person=True).is_main


@pytest.mark.parametrize("standing", [Standing.UNVERIFIED, Standing.HEALTHY], ids=str)
def test_a_running_verification_is_awaited_and_not_repeated(standing: Standing) -> None:
    found = remedies(standing, changes_url=standing is Standing.HEALTHY, is_verifying=True)

    assert [(each.action, each.is_main) for each in found] == [("send_test", False)]


def test_a_limit_that_holds_back_events_can_be_changed() -> None:
    found = [remedy(Standing.HELD_BACK, limit=name).field for name in ("rate_limit", "max_in_flight", "")]

    assert found == ["rate_limit", "max_in_flight", ""]


def test_a_paused_webhook_is_resumed_while_its_new_url_is_verified() -> None:
    assert remedy(Standing.PAUSED, is_paused=True, changes_url=True, is_verifying=True).action == "resume"


def test_a_limit_that_the_order_never_reaches_holds_back_nothing() -> None:
    webhooks = [Webhook(order=order, max_in_flight=3) for order in Order]

    assert [limit_of(each) for each in webhooks] == ["max_in_flight", "", "max_in_flight"]
    assert limit_of(Webhook(order=Order.WEBHOOK, max_in_flight=3, rate_limit=1)) == "rate_limit"


@pytest.mark.parametrize("standing", Standing, ids=str)
def test_staff_are_not_told_to_repair_the_receiver_of_an_account(standing: Standing) -> None:
    words = advice(standing, missed=1, for_staff=True)

    assert not words.startswith(("First fix", "Fix", "Start", "Let the receiver", "There is nothing"))


def test_staff_repair_the_receiver_and_the_workers_of_the_platform() -> None:
    states = (Standing.FAILING, Standing.DELAYED)

    found = [advice(each, missed=1, for_staff=True, is_of_platform=True) for each in states]

    assert [words.split()[0] for words in found] == ["First", "Check"]
