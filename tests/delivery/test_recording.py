"""The times at which results are recorded."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from webhooks_app.delivery import recording
from webhooks_app.delivery.recording import Recorder

WINDOW = 2000


def result(is_ordered=False):
    return SimpleNamespace(claim=SimpleNamespace(is_ordered=is_ordered))


@pytest.fixture
def in_flight():
    return [1]


@pytest.fixture
def batches():
    return []


@pytest.fixture
def recorder(clock, in_flight, batches, monkeypatch):
    monkeypatch.setattr(recording, "record", lambda using, finished, now: [])
    return Recorder(
        using="default",
        clock=clock,
        window=WINDOW,
        in_flight=lambda: in_flight[0],
        on_recorded=batches.append,
        wake=lambda: None,
    )


def record(recorder, *results):
    recorder.put(results)
    recorder.turn()


@pytest.mark.parametrize("number", [1, 10])
def test_the_last_results_in_flight_are_recorded_at_once(recorder, batches, in_flight, number):
    in_flight[0] = number

    record(recorder, *[result()] * number)

    assert [len(batch) for batch in batches] == [number]


def test_at_light_load_results_wait_briefly_for_the_other_ones_in_flight(recorder, batches, in_flight, clock):
    in_flight[0] = 4
    for _ in range(3):
        record(recorder, result())
    assert batches == []
    assert recorder.pause_seconds() == pytest.approx(0.01, abs=0.001)

    clock.advance(0.02)
    recorder.turn()

    assert [len(batch) for batch in batches] == [3]


def test_an_ordered_result_is_recorded_at_once(recorder, batches, in_flight):
    in_flight[0] = 4

    record(recorder, result(is_ordered=True))

    assert [len(batch) for batch in batches] == [1]


def test_at_high_load_half_of_the_open_claims_are_recorded_together(recorder, batches, in_flight):
    in_flight[0] = 200
    record(recorder, *[result()] * 99)
    assert batches == []

    record(recorder, result())

    assert [len(batch) for batch in batches] == [100]
