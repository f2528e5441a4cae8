"""The next step of a recovery, decided from its situation and the time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from webhooks_app.maintenance.recovery import LATER, Decision, Situation, Step, decide
from webhooks_app.models.episode import delay_after
from webhooks_app.replays.runner import width_of_recovery

NOW = datetime(2026, 3, 5, 14, 30, tzinfo=UTC)
DAYS = timedelta(days=3)
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)

END, ATTEMPT, REPLAY = Decision(Step.END), Decision(Step.ATTEMPT, NOW + LATER), Decision(Step.REPLAY)
SOON = Decision(Step.WAIT, NOW + LATER)
PAUSED_BY_US = {"replays": 1, "replay": "paused", "replay_reason": "receiver_fails_again", "replayed_at": NOW - MINUTE}
SUCCESS = {"is_failing": False}


def wait_until(moment: datetime) -> Decision:
    return Decision(Step.WAIT, moment)


@pytest.mark.parametrize(
    ("ago", "facts", "expected"),
    [
        pytest.param(59 * SECOND, {}, wait_until(NOW + SECOND), id="just failed"),
        pytest.param(MINUTE, {}, ATTEMPT, id="first attempt"),
        pytest.param(4 * MINUTE, {"attempts": 1}, wait_until(NOW + MINUTE), id="before the second attempt"),
        pytest.param(5 * MINUTE, {"attempts": 1}, ATTEMPT, id="second attempt"),
        pytest.param(15 * MINUTE, {"attempts": 2}, ATTEMPT, id="third attempt"),
        pytest.param(30 * MINUTE, {"attempts": 3}, ATTEMPT, id="fourth attempt"),
        pytest.param(59 * MINUTE, {"attempts": 4}, wait_until(NOW + MINUTE), id="before the fifth attempt"),
        pytest.param(60 * MINUTE, {"attempts": 4}, ATTEMPT, id="fifth attempt"),
        pytest.param(60 * MINUTE, {"attempts": 40}, ATTEMPT, id="fortieth attempt"),
        pytest.param(60 * MINUTE, {"is_busy": True}, SOON, id="failing with pending deliveries"),
        pytest.param(60 * MINUTE, {"is_wanted": False}, END, id="deleted or manual"),
        pytest.param(60 * MINUTE, {"is_stopped": True}, SOON, id="stopped"),
        pytest.param(DAYS + SECOND, {"is_stopped": True}, END, id="stopped for too long"),
        pytest.param(MINUTE, SUCCESS, REPLAY, id="first success"),
        pytest.param(MINUTE, {**SUCCESS, "is_busy": True}, REPLAY, id="success while others are pending"),
        pytest.param(MINUTE, {**SUCCESS, "is_stopped": True}, SOON, id="stopped after the success"),
        pytest.param(MINUTE, {**SUCCESS, "replays": 1, "replay": "counting"}, SOON, id="replay is counted"),
        pytest.param(MINUTE, {**SUCCESS, "replays": 1, "replay": "running"}, SOON, id="replay runs"),
        pytest.param(
            MINUTE,
            {**SUCCESS, "replays": 1, "replay": "ready"},
            Decision(Step.START, NOW + LATER),
            id="replay is ready",
        ),
        pytest.param(MINUTE, {**SUCCESS, **PAUSED_BY_US}, Decision(Step.RESUME, NOW + LATER), id="answers again"),
        pytest.param(MINUTE, PAUSED_BY_US, ATTEMPT, id="fails again during the replay"),
        pytest.param(MINUTE, {**PAUSED_BY_US, "replay_reason": ""}, SOON, id="a person paused the replay"),
        pytest.param(
            DAYS + SECOND, {**SUCCESS, **PAUSED_BY_US, "replay_reason": ""}, END, id="a person paused it for too long"
        ),
        pytest.param(
            MINUTE,
            {**SUCCESS, "replays": 1, "replay": "stopped", "replay_reason": "webhook_was_disabled"},
            Decision(Step.RESUME, NOW + LATER),
            id="enabled again",
        ),
        pytest.param(
            MINUTE,
            {**SUCCESS, "replays": 1, "replay": "stopped", "replay_reason": "text"},
            SOON,
            id="stopped by an error",
        ),
        pytest.param(MINUTE, {**SUCCESS, "replays": 1, "replay": "cancelled"}, END, id="cancelled by the owner"),
        pytest.param(
            MINUTE,
            {**SUCCESS, "replays": 1, "replay": "done", "replayed_at": NOW - 2 * MINUTE, "has_pending": True},
            SOON,
            id="last deliveries are sent",
        ),
        pytest.param(
            MINUTE,
            {**SUCCESS, "replays": 1, "replay": "done", "replayed_at": NOW - 30 * SECOND},
            wait_until(NOW + 30 * SECOND),
            id="just replayed",
        ),
        pytest.param(
            MINUTE, {**SUCCESS, "replays": 1, "replay": "done", "replayed_at": NOW - MINUTE}, REPLAY, id="second replay"
        ),
        pytest.param(
            MINUTE,
            {**SUCCESS, "replays": 3, "replay": "done", "replayed_at": NOW - 5 * MINUTE},
            wait_until(NOW + 10 * MINUTE),
            id="fourth replay",
        ),
    ],
)
def test_the_next_step(ago, facts, expected):
    assert decide(Situation(failed_at=NOW - ago, **facts), NOW, keep_for=DAYS) == expected


def test_the_delays_between_attempts():
    assert [delay_after(number) / MINUTE for number in range(7)] == [1, 5, 15, 30, 60, 60, 60]


@pytest.mark.parametrize(
    ("in_flight", "since_success", "expected"),
    [
        pytest.param(50, timedelta(0), 12, id="a quarter at first"),
        pytest.param(50, 59 * SECOND, 12, id="a quarter for a minute"),
        pytest.param(50, MINUTE, 25, id="half of it later"),
        pytest.param(50, None, 25, id="long ago"),
        pytest.param(1, timedelta(0), 1, id="one at a time"),
    ],
)
def test_the_width_of_a_recovery(in_flight, since_success, expected):
    succeeded_at = None if since_success is None else NOW - since_success

    assert width_of_recovery(in_flight, succeeded_at, NOW) == expected
