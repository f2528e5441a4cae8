"""The built-in retry policies and those of a host."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest

from webhooks_app.retry import DelaysPolicy, ExtendedPolicy, SpecificationPolicy, parse_retry_after

FAILED_AT = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
SPECIFICATION, EXTENDED = SpecificationPolicy(), ExtendedPolicy()


class Twice(DelaysPolicy):
    name = "twice"
    delays_seconds = (0, 0.5)
    max_retry_after = timedelta(seconds=20)


@pytest.mark.parametrize(
    ("number", "seconds"),
    [pytest.param(1, 1, id="first"), pytest.param(2, 5, id="second"), pytest.param(3, 30, id="third")],
)
def test_the_retries_are_1_5_and_30_seconds_after_the_previous_failure(number, seconds):
    assert SPECIFICATION.next_attempt_at(number, FAILED_AT) == FAILED_AT + timedelta(seconds=seconds)


@pytest.mark.parametrize("number", [4, 5, 1000])
def test_a_delivery_is_given_up_after_the_fourth_attempt(number):
    assert SPECIFICATION.next_attempt_at(number, FAILED_AT) is None


def test_the_extended_policy_makes_ten_attempts_in_about_three_days():
    assert EXTENDED.max_attempts == 10
    assert timedelta(days=3) < EXTENDED.span < timedelta(days=3.5)
    assert EXTENDED.next_attempt_at(10, FAILED_AT) is None


def test_jitter_only_extends_a_delay():
    moments = [EXTENDED.next_attempt_at(9, FAILED_AT) - FAILED_AT for _ in range(100)]

    assert timedelta(days=1) <= min(moments) < max(moments) <= timedelta(days=1.1)


def test_a_policy_without_delays_never_retries():
    class Never(DelaysPolicy):
        name = "never"

    assert (Never().max_attempts, Never().next_attempt_at(1, FAILED_AT)) == (1, None)


@pytest.mark.parametrize("number", [0, -1])
def test_there_is_no_attempt_before_the_first(number):
    with pytest.raises(ValueError, match="counted from 1"):
        SPECIFICATION.next_attempt_at(number, FAILED_AT)


@pytest.mark.parametrize(
    ("policy", "wish", "seconds"),
    [
        pytest.param(SPECIFICATION, 120, 5, id="ignored by the specification"),
        pytest.param(Twice(), 10, 10, id="granted"),
        pytest.param(Twice(), 0.1, 0.5, id="never earlier than the delay"),
        pytest.param(Twice(), 10**9, 20, id="capped"),
    ],
)
def test_retry_after_is_used_if_the_policy_allows_it(policy, wish, seconds):
    moment = policy.next_attempt_at(2, FAILED_AT, retry_after=timedelta(seconds=wish))

    assert moment == FAILED_AT + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        pytest.param("120", 120, id="seconds"),
        pytest.param(" 7 ", 7, id="spaces"),
        pytest.param("Sat, 31 Jan 2026 12:01:00 GMT", 60, id="date"),
        pytest.param("1" + "0" * 20, 10**9, id="enormous"),
        pytest.param("Sat, 31 Jan 2026 11:59:00 GMT", None, id="past"),
        pytest.param("-1", None, id="negative"),
        pytest.param("soon", None, id="words"),
        pytest.param("²", None, id="digit of another kind"),
        pytest.param("Sat, 31 Jan 999999 11:59:00 GMT", None, id="impossible date"),
        pytest.param("", None, id="empty"),
    ],
)
def test_retry_after_has_seconds_or_a_date(value, seconds):
    expected = None if seconds is None else timedelta(seconds=seconds)

    assert parse_retry_after(value, FAILED_AT) == expected


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        pytest.param({"delays_seconds": (1, -5)}, "a delay that is negative", id="negative delay"),
        pytest.param({"jitter": -0.1}, "a jitter of -0.1; 0 to 1", id="negative jitter"),
        pytest.param({"jitter": 1.1}, "a jitter of 1.1", id="large jitter"),
        pytest.param({"jitter": math.nan}, "a jitter of nan", id="no number"),
        pytest.param({"jitter": math.inf}, "a jitter of inf", id="infinite jitter"),
        pytest.param(
            {"max_retry_after": timedelta(seconds=-1)}, "a max_retry_after that is negative", id="negative wait"
        ),
        pytest.param({"max_retry_after": timedelta(days=31)}, "longer than 30 days", id="long wait"),
    ],
)
def test_an_unusable_policy_has_a_reason(fields, reason):
    assert reason in type("Hasty", (Twice,), fields)().problem()


@pytest.mark.parametrize("policy", [SPECIFICATION, EXTENDED, Twice()], ids=lambda policy: policy.name)
def test_a_usable_policy_has_no_problem(policy):
    assert not policy.problem()
