"""Identifiers."""

import re
import time
from datetime import UTC, datetime, timedelta

import pytest

from webhooks_app.protocol import ids


@pytest.mark.parametrize("prefix", ["evt", "wh", "dlv", "att"])
def test_an_id_consists_of_a_prefix_letters_and_digits(prefix):
    assert re.fullmatch(rf"{prefix}_[0-9a-f]{{32}}", ids.new_id(prefix))


def test_ids_of_different_milliseconds_sort_by_time(monkeypatch):
    moments = [1_767_268_800_000, 1_767_268_800_001, 1_767_355_200_000, 2_524_608_000_000]
    made = []
    for milliseconds in moments:
        monkeypatch.setattr(time, "time_ns", lambda now=milliseconds: now * 1_000_000)
        made.append(ids.new_id("evt"))

    assert made == sorted(made)


def test_ids_of_one_millisecond_differ(monkeypatch):
    monkeypatch.setattr(time, "time_ns", lambda: 1_767_268_800_000_000_000)

    assert len({ids.new_id("evt") for _ in range(1000)}) == 1000


def test_80_bits_of_an_id_are_random(monkeypatch):
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    parts = [int(ids.new_id("evt").removeprefix("evt_")[12:], 16) for _ in range(500)]

    seen_set = seen_clear = 0
    for part in parts:
        seen_set |= part
        seen_clear |= ~part
    every_bit = 2**80 - 1
    assert seen_set & every_bit == every_bit
    assert seen_clear & every_bit == every_bit


def test_ordered_ids_of_different_microseconds_sort_by_time():
    start = datetime(2026, 1, 1, 12, tzinfo=UTC)
    made = [ids.new_ordered_id("aud", start + timedelta(microseconds=after)) for after in (0, 1, 999, 1000)]

    assert made == sorted(made)
    assert all(re.fullmatch(r"aud_[0-9a-f]{32}", each) for each in made)
    assert ids.time_of(made[2]) == ids.time_of(made[0])


def test_an_identifier_contains_its_creation_time():
    before = datetime.now(UTC)

    made_at = ids.time_of(ids.new_id("evt"))

    assert before - timedelta(milliseconds=1) <= made_at <= datetime.now(UTC)


def test_the_first_identifier_of_a_moment_is_the_smallest():
    moment = datetime(2026, 3, 5, 14, 30, 20, 123000, tzinfo=UTC)

    first = ids.first_id_at("dlv", moment)

    assert ids.time_of(first) == moment
    assert ids.first_id_at("dlv", moment - timedelta(milliseconds=1)) < first
    assert ids.first_id_at("dlv", datetime(1969, 1, 1, tzinfo=UTC)) == "dlv_" + "0" * 32


def test_the_last_identifier_of_a_millisecond_is_the_greatest(monkeypatch):
    monkeypatch.setattr(time, "time_ns", lambda: 1_767_268_800_000_000_000)
    made = [ids.new_id("evt") for _ in range(100)]

    last = ids.last_id_like(made[0])

    assert all(ids.last_id_like(each) == last >= each for each in made)
    assert last < ids.first_id_at("evt", ids.time_of(last) + timedelta(milliseconds=1))
