"""When the engine looks, as a function of time and of what happened."""

from __future__ import annotations

from datetime import timedelta

import pytest

from webhooks_app.delivery.agenda import Agenda


@pytest.fixture
def agenda(clock):
    return Agenda(clock, sweep_seconds=5)


def look(agenda, *, found=False, took_seconds=0.001):
    assert agenda.is_look_due()
    agenda.looked(found=found, took_seconds=took_seconds)


def test_the_first_look_is_due_at_once(agenda):
    assert agenda.is_look_due()


def test_an_engine_that_finds_nothing_sleeps_for_a_sweep(agenda):
    look(agenda)

    assert agenda.seconds_to_look() == pytest.approx(5)
    assert not agenda.is_look_due()


def test_after_something_was_found_it_looks_every_few_milliseconds_for_a_while(agenda, clock):
    look(agenda, found=True)
    looks = 0
    for _ in range(400):
        clock.advance(0.001)
        if agenda.is_look_due():
            agenda.looked(found=False, took_seconds=0.0001)
            looks += 1

    assert 40 <= looks <= 52
    assert agenda.seconds_to_look() > 1


def test_a_slow_look_makes_looks_rare(agenda):
    look(agenda, found=True, took_seconds=0.02)

    assert agenda.seconds_to_look() == pytest.approx(0.2)


def test_a_wake_up_makes_a_look_due(agenda):
    look(agenda)
    agenda.wake()

    assert agenda.is_look_due()


def test_what_is_heard_of_during_a_look_makes_another_one_due(agenda):
    assert agenda.is_look_due()
    agenda.look_soon()
    agenda.looked(found=False, took_seconds=0.001)

    assert agenda.seconds_to_look() == 0
    assert agenda.is_look_due()


def test_a_ring_makes_a_look_due_and_one_more_for_what_did_not_ring(agenda, clock):
    look(agenda)
    agenda.look_soon_and_after(0.1)
    look(agenda)

    assert agenda.seconds_to_look() == pytest.approx(0.1)
    clock.advance(0.1)
    look(agenda)
    assert agenda.seconds_to_look() == pytest.approx(5)


def test_a_look_is_due_when_a_retry_is(agenda, clock):
    look(agenda)
    agenda.look_at(clock() + timedelta(seconds=1))

    assert agenda.seconds_to_look() == pytest.approx(1)
    clock.advance(0.99)
    assert not agenda.is_look_due()
    clock.advance(0.01)
    assert agenda.is_look_due()
    assert not agenda.expects_work


def test_a_wake_up_that_met_a_lost_connection_is_not_forgotten(agenda, clock):
    look(agenda)
    agenda.wake()
    assert agenda.is_look_due()
    agenda.database_failed()

    assert not agenda.may_ask_database
    clock.advance(agenda.seconds_to_ask())
    assert agenda.may_ask_database
    assert agenda.is_look_due()


def test_the_database_is_asked_ever_more_seldom_while_it_is_away(agenda):
    waits = []
    for _ in range(8):
        agenda.database_failed()
        waits.append(agenda.seconds_to_ask())

    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5, 5])
    agenda.database_answered()
    assert agenda.may_ask_database
