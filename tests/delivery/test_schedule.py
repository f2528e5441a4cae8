"""The schedule of looks: what follows from events and answers, without a database or a clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from webhooks_app.delivery.schedule import MANY, MAX_MOMENTS, Found, Look, Now, Schedule

from ..support.slots import claim_of

START = Now(datetime(2026, 1, 1, tzinfo=UTC), 1000.0)
SOMETHING = [claim_of("wh_1")]


def later(seconds: float) -> Now:
    return START.later(START.monotonic + seconds)


def next_look(schedule: Schedule, now: Now = START, **options: Any) -> Look | None:
    return schedule.next(now, limit=100, **{"with_lost": True, **options})


def looked(schedule: Schedule, now: Now = START, *, took_seconds: float = 0.001, **found: Any) -> Schedule:
    """Look, and find this."""
    look = next_look(schedule, now)
    assert look is not None
    return schedule.after(look, Found(**found), now.later(now.monotonic + took_seconds))


def pause(schedule: Schedule, now: Now = START) -> float:
    return schedule.pause_seconds(now, has_room=True)


def looks(schedule: Schedule, **found: Any) -> tuple[int, Schedule]:
    """Return the number of looks in the next 0.4 seconds, each of which finds this."""
    number = 0
    for step in range(1, 401):
        now = later(step / 1000)
        if (look := next_look(schedule, now)) and not look.named:
            schedule = schedule.after(look, Found(**found), now.later(now.monotonic + 0.0001))
            number += 1
    return number, schedule


@pytest.fixture
def new() -> Schedule:
    return Schedule(sweep_seconds=5)


@pytest.fixture
def idle(new: Schedule) -> Schedule:
    return looked(new)


def test_the_first_look_is_due_at_once(new):
    assert next_look(new)


def test_after_an_empty_look_the_worker_sleeps_until_the_sweep(idle):
    assert pause(idle) == pytest.approx(5, abs=0.01)
    assert next_look(idle) is None
    assert idle.found_nothing


def test_after_a_find_looks_are_frequent_for_a_while(new):
    number, schedule = looks(looked(new, claims=SOMETHING))

    assert 40 <= number <= 52
    assert pause(schedule, later(0.4)) > 1


def test_slow_looks_are_less_frequent(new):
    schedule = looked(new, claims=SOMETHING, took_seconds=0.02)

    assert pause(schedule, later(0.02)) == pytest.approx(0.2)


def test_a_wake_up_makes_a_look_due(idle):
    assert next_look(idle.woken(START))


def test_new_work_during_a_look_makes_another_one_due(new):
    schedule = looked(new).asked(later(0.001))

    assert pause(schedule, later(0.001)) == 0
    assert next_look(schedule, later(0.001))


def test_a_notification_makes_a_claim_from_the_named_webhooks_due(idle):
    schedule = idle.named(START, ["wh_1", "wh_2", "wh_1"])
    assert pause(schedule) == 0

    look = next_look(schedule)

    assert look is not None
    assert list(look.named) == ["wh_1", "wh_2"]
    assert pause(schedule.after(look, Found(left=True), START)) == pytest.approx(0.05)


def test_a_look_follows_later_if_the_named_webhooks_had_nothing_more(idle):
    schedule = looked(idle.named(START, ["wh_1"]), took_seconds=0, claims=SOMETHING)

    assert pause(schedule) == pytest.approx(0.25)


def test_a_named_webhook_that_the_last_claim_served_needs_no_early_look(new):
    schedule = looked(new._replace(is_listening=True), claims=SOMETHING).named(START, ["wh_1"])

    assert pause(looked(schedule)) == pytest.approx(0.25, abs=0.002)


def test_a_claim_from_named_webhooks_keeps_what_the_last_look_left(new):
    schedule = looked(new._replace(is_listening=True), left=True).named(START, ["wh_1"])
    schedule = looked(schedule, claims=SOMETHING)
    assert pause(schedule) == pytest.approx(0.05, abs=0.002)

    look = next_look(schedule.recorded(START))

    assert look is not None
    assert not look.named


@pytest.mark.parametrize(
    ("left", "seconds"), [pytest.param(False, 0.25, id="complete"), pytest.param(True, 0.05, id="incomplete")]
)
def test_a_listening_worker_looks_again_soon_only_if_it_left_something(new, left, seconds):
    schedule = looked(new._replace(is_listening=True), claims=SOMETHING, left=left)

    assert pause(schedule, later(0.001)) == pytest.approx(seconds)


def test_a_look_includes_the_named_webhooks(new):
    assert not looked(new.named(START, ["wh_1"])).names


def test_a_notification_without_names_makes_a_look_due(idle):
    look = next_look(idle.named(START, []))

    assert look is not None
    assert not look.named


def test_looks_are_frequent_while_notifications_are_suspended(idle):
    schedule = idle._replace(is_listening=True).named(START, ["wh_1"], more_follow=True)
    number, schedule = looks(looked(schedule))

    assert 18 <= number <= 23
    assert pause(schedule, later(0.4)) > 1


def test_a_worker_that_begins_to_listen_looks_for_earlier_commits(idle):
    schedule = idle.listening(START)

    assert schedule.is_listening
    assert next_look(schedule)


def test_a_look_follows_the_suspension_of_notifications(new):
    schedule = new._replace(is_listening=True).named(START, ["wh_1"], more_follow=True)
    end = schedule.often_until - START.monotonic

    schedule = looked(schedule, later(end - 0.001), took_seconds=0.05)

    assert pause(schedule, later(end + 0.049)) < 0.01


def test_a_look_is_due_at_the_time_of_a_retry(idle):
    retry_at = START.at + timedelta(seconds=1)
    schedule = idle.expecting(START, [retry_at])

    assert pause(schedule) == pytest.approx(1)
    assert next_look(schedule, later(0.99)) is None
    assert not looked(schedule, later(1)).moments


def test_a_retry_makes_a_look_due_for_its_notice(idle):
    schedule = idle.recorded(START, retries=[START.at + timedelta(seconds=60)])

    assert next_look(schedule)
    assert not schedule.found_nothing


@pytest.mark.parametrize("left", [False, True])
def test_a_result_makes_a_look_due_only_if_the_last_one_left_something(new, left):
    schedule = looked(new, left=left).recorded(later(0.002))

    assert (next_look(schedule, later(0.002)) is not None) is left
    assert schedule.found_nothing is not left


def test_a_freed_group_is_claimed_from_its_webhook_only(idle):
    schedule = idle.recorded(START, freed=[("wh_1", START.at), ("wh_1", START.at - timedelta(seconds=3))])

    look = next_look(schedule)

    assert look is not None
    assert look.named == {"wh_1": START.at - timedelta(seconds=4)}
    assert schedule.has_freed
    assert not schedule.without_freed().names


def test_a_notification_keeps_the_bound_of_a_freed_group(idle):
    schedule = idle.recorded(START, freed=[("wh_1", START.at)]).named(START, ["wh_1", "wh_2"])

    assert schedule.names == {"wh_1": START.at - timedelta(seconds=1), "wh_2": None}


def test_a_webhook_at_its_rate_limit_is_left_alone_until_its_next_slot(new):
    until = START.at + timedelta(seconds=2)
    schedule = looked(new, paced={"wh_1": until})

    assert pause(schedule) == pytest.approx(2)
    look = next_look(schedule.asked(START))
    assert look is not None
    assert look.skipped == {"wh_1"}
    look = next_look(schedule, later(2))
    assert look is not None
    assert not look.skipped


def test_an_unreadable_webhook_is_skipped_for_a_time_that_doubles(new):
    spans = []
    schedule, now = new, START
    for _ in range(8):
        schedule = schedule.skipping(now, ["wh_1"]).skipping(now, ["wh_1"])
        spans.append((schedule.skips["wh_1"].until - now.at).total_seconds())
        now = now.later(now.monotonic + spans[-1])

    assert spans == [5, 10, 20, 40, 80, 160, 300, 300]


def test_a_large_claim_is_followed_by_one_from_the_same_webhooks(new):
    schedule = looked(new, claims=SOMETHING * MANY, page_end="wh_9", left=True, has_paged=True)

    look = next_look(schedule, later(0.02))
    assert look is not None
    assert (look.busy, look.page_end) == (["wh_1"], "wh_9")
    look = next_look(schedule, later(0.06))
    assert look is not None
    assert not look.busy


def test_lost_claims_of_full_webhooks_are_sought_every_second_and_after_a_death(new):
    def seeks(schedule: Schedule, seconds: float) -> bool:
        look = next_look(schedule.asked(later(seconds)), later(seconds))
        return look is not None and look.seeks_lost

    schedule = looked(new)

    assert (seeks(schedule, 0.9), seeks(schedule, 1.1)) == (False, True)
    assert seeks(schedule.bereaved(later(0.1)), 0.1)


def test_without_room_a_worker_waits_for_results(idle):
    assert idle.asked(START).pause_seconds(START, has_room=False) == 5


def test_lower_numbers_are_published_a_moment_after_the_first_result(idle):
    schedule = idle.recorded(START).recorded(later(0.05))

    assert schedule.pause_seconds(START, has_room=False) == pytest.approx(0.1)
    assert schedule.published().pause_seconds(START, has_room=False) == 5


def test_the_number_of_claims_that_were_cancelled_at_once_is_published_too(new):
    schedule = looked(new, has_cancelled=True, claims=SOMETHING)

    assert schedule.pause_seconds(later(0.001), has_room=False) == pytest.approx(0.1)


def test_the_claims_of_a_failed_look_are_released_at_once_and_again_after_five_seconds(new):
    look = next_look(new)
    assert look is not None
    schedule = new.failed(START, look)

    assert schedule.claimed_unacknowledged(START) == START.at
    schedule = schedule.without_unacknowledged(START)
    assert schedule.claimed_unacknowledged(later(4.9)) is None
    assert schedule.claimed_unacknowledged(later(5)) == START.at
    assert schedule.without_unacknowledged(START).claimed_unacknowledged(later(60)) is None


def test_of_very_many_retries_a_look_finds_the_ones_that_were_not_remembered(idle):
    times = [START.at + timedelta(seconds=second) for second in range(1, MAX_MOMENTS + 3)]
    schedule = idle.recorded(START, retries=times[::-1])
    for at in times[:MAX_MOMENTS]:
        now = START.later(START.monotonic + (at - START.at).total_seconds())
        schedule = looked(schedule, now, next_at=times[-2])

    assert schedule.moments == (times[-2],)
    schedule = looked(schedule, now.later(now.monotonic + 1), next_at=times[-1])
    assert schedule.moments == (times[-1],)
    assert not looked(schedule, now.later(now.monotonic + 2)).has_later_moments
