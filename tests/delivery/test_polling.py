"""The schedule of looks, depending on time and events."""

from __future__ import annotations

from datetime import timedelta

import pytest

from webhooks_app.delivery.polling import PollSchedule


@pytest.fixture
def polls(clock):
    return PollSchedule(clock, sweep_seconds=5)


def look(polls, *, found=False, took_seconds=0.001):
    assert polls.is_look_due()
    polls.looked(found=found, took_seconds=took_seconds)


def test_the_first_look_is_due_at_once(polls):
    assert polls.is_look_due()


def test_after_an_empty_look_the_engine_sleeps_until_the_sweep(polls):
    look(polls)

    assert polls.seconds_to_look() == pytest.approx(5)
    assert not polls.is_look_due()


def test_after_a_find_looks_are_frequent_for_a_while(polls, clock):
    look(polls, found=True)
    looks = 0
    for _ in range(400):
        clock.advance(0.001)
        if polls.is_look_due():
            polls.looked(found=False, took_seconds=0.0001)
            looks += 1

    assert 40 <= looks <= 52
    assert polls.seconds_to_look() > 1


def test_slow_looks_are_less_frequent(polls):
    look(polls, found=True, took_seconds=0.02)

    assert polls.seconds_to_look() == pytest.approx(0.2)


def test_a_wake_up_makes_a_look_due(polls):
    look(polls)
    polls.wake()

    assert polls.is_look_due()


def test_new_work_during_a_look_makes_another_one_due(polls):
    assert polls.is_look_due()
    polls.look_soon()
    polls.looked(found=False, took_seconds=0.001)

    assert polls.seconds_to_look() == 0
    assert polls.is_look_due()


def test_a_notification_makes_a_claim_from_the_named_webhooks_due(polls):
    look(polls)
    polls.notified(["wh_1", "wh_2", "wh_1"], more_follow=False)

    assert polls.seconds_to_look() == 0
    assert polls.is_look_due()
    assert polls.take_named() == ["wh_1", "wh_2"]
    polls.claimed_named(is_complete=False)
    assert polls.seconds_to_look() == pytest.approx(0.05)


def test_a_look_follows_later_if_the_named_webhooks_had_nothing_more(polls):
    look(polls)
    polls.notified(["wh_1"], more_follow=False)
    assert polls.is_look_due()
    assert polls.take_named() == ["wh_1"]

    polls.claimed_named(is_complete=True)

    assert polls.seconds_to_look() == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("is_complete", "seconds"), [pytest.param(True, 0.25, id="complete"), pytest.param(False, 0.05, id="incomplete")]
)
def test_a_listening_engine_looks_again_soon_only_if_it_left_something(polls, is_complete, seconds):
    polls.is_listening = True

    assert polls.is_look_due()
    polls.looked(found=True, took_seconds=0.001, is_complete=is_complete)

    assert polls.seconds_to_look() == pytest.approx(seconds)


def test_a_look_includes_the_named_webhooks(polls):
    polls.notified(["wh_1"], more_follow=False)

    look(polls)

    assert polls.take_named() == []


def test_a_notification_without_names_makes_a_look_due(polls):
    look(polls)
    polls.notified([], more_follow=False)

    look(polls)


def test_looks_are_frequent_while_notifications_are_suspended(polls, clock):
    polls.is_listening = True
    look(polls)
    polls.notified(["wh_1"], more_follow=True)
    looks = 0
    for _ in range(400):
        clock.advance(0.001)
        if polls.is_look_due() and not polls.take_named():
            polls.looked(found=False, took_seconds=0.0001)
            looks += 1

    assert 18 <= looks <= 23
    assert polls.seconds_to_look() > 1


def test_a_look_follows_the_suspension_of_notifications(polls, clock):
    polls.is_listening = True
    polls.notified(["wh_1"], more_follow=True)
    period = polls._look_often_until - clock.monotonic()
    clock.advance(period - 0.001)

    look(polls, took_seconds=0.05)

    assert polls.seconds_to_look() < 0.01


def test_a_look_is_due_at_the_time_of_a_retry(polls, clock):
    look(polls)
    polls.look_at(clock() + timedelta(seconds=1))

    assert polls.seconds_to_look() == pytest.approx(1)
    clock.advance(0.99)
    assert not polls.is_look_due()
    clock.advance(0.01)
    assert polls.is_look_due()
    assert not polls.expects_work
