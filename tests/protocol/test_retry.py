"""The retry schedule."""

from datetime import UTC, datetime, timedelta

import pytest

from webhooks_app.retry import RetrySchedule

FAILED_AT = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("attempt_number", "seconds"),
    [pytest.param(1, 1, id="first"), pytest.param(2, 5, id="second"), pytest.param(3, 30, id="third")],
)
def test_the_retries_come_1_5_and_30_seconds_after_the_failure_before(attempt_number, seconds):
    next_attempt_at = RetrySchedule.of_seconds().next_attempt_at(attempt_number, FAILED_AT)

    assert next_attempt_at == FAILED_AT + timedelta(seconds=seconds)


@pytest.mark.parametrize("attempt_number", [4, 5, 1000])
def test_after_the_fourth_attempt_it_is_given_up(attempt_number):
    assert RetrySchedule.of_seconds().next_attempt_at(attempt_number, FAILED_AT) is None


def test_a_schedule_without_delays_never_retries():
    schedule = RetrySchedule.of_seconds([])

    assert schedule.max_attempts == 1
    assert schedule.next_attempt_at(1, FAILED_AT) is None


def test_a_host_may_choose_other_delays():
    schedule = RetrySchedule.of_seconds([0, 0.5])

    assert schedule.max_attempts == 3
    assert schedule.next_attempt_at(2, FAILED_AT) == FAILED_AT + timedelta(milliseconds=500)


@pytest.mark.parametrize("attempt_number", [0, -1])
def test_there_is_no_attempt_before_the_first(attempt_number):
    with pytest.raises(ValueError, match="counted from 1"):
        RetrySchedule.of_seconds().next_attempt_at(attempt_number, FAILED_AT)


def test_a_negative_delay_is_refused():
    with pytest.raises(ValueError, match="negative"):
        RetrySchedule.of_seconds([1, -5])
