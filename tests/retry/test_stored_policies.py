"""Policies as deliveries keep them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from webhooks_app.implementations import MAX_CHOICE_NAME_LENGTH
from webhooks_app.retry import (
    MAX_ATTEMPTS,
    MAX_PACKED_LENGTH,
    BaseRetryPolicy,
    DelaysPolicy,
    ExtendedPolicy,
    SpecificationPolicy,
    pack_policy,
    unpack_policy,
)


class Own(DelaysPolicy):
    name = "own"
    delays_seconds = (0.5, 7.25, 86_400)
    max_retry_after = timedelta(hours=1)


class Longest(BaseRetryPolicy):
    name = "n" * MAX_CHOICE_NAME_LENGTH
    max_attempts = MAX_ATTEMPTS

    def delay(self, number: int) -> timedelta:
        return timedelta(days=29, seconds=0.123)


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        pytest.param(SpecificationPolicy(), "", id="specification"),
        pytest.param(ExtendedPolicy(), "extended", id="built in"),
        pytest.param(Own(), "own:0.5,7.25,86400", id="own"),
    ],
)
def test_a_policy_is_packed(policy: BaseRetryPolicy, text: str) -> None:
    assert pack_policy(policy) == text
    assert unpack_policy(text, policy) is policy


def test_delays_that_do_not_fit_are_a_problem_and_are_left_out() -> None:
    assert f"more than {MAX_PACKED_LENGTH} characters" in Longest().problem()
    assert pack_policy(Longest()) == Longest.name


def test_packed_delays_outlive_their_policy() -> None:
    fixed = unpack_policy("own:1,2", None)

    assert fixed is not None
    assert (fixed.name, fixed.max_attempts, fixed.delays) == ("own", 3, (timedelta(seconds=1), timedelta(seconds=2)))


def test_packed_delays_have_the_other_properties_of_the_current_policy() -> None:
    fixed = unpack_policy("own:1,2", Own())

    assert fixed is not None
    assert (fixed.delays[1], fixed.max_retry_after) == (timedelta(seconds=2), timedelta(hours=1))


@pytest.mark.parametrize("name", ["", "a:b", "n" * (MAX_CHOICE_NAME_LENGTH + 1)], ids=["empty", "colon", "long"])
def test_a_name_that_cannot_be_stored_is_a_problem(name: str) -> None:
    policy = Own()
    policy.name = name

    assert "has the name" in policy.problem()
