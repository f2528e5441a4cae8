"""Each count increases for its violation: artificial rows and logs, with one violation at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from .invariants import AttemptRow, DeliveryRow, Evidence, Hit, count, judge
from .schedule import least_in_flight

NOW = 1_000_000.0


def hit(at=NOW, *, status=200, event_id="evt_1", path="/ok", event_type="ppt.generation.failed", announced=None):
    return Hit(
        event_id=event_id,
        event_type=event_type,
        path=path,
        announced=announced,
        at=at,
        answered_at=None if status is None else at + 0.1,
        status=status,
    )


def notice(at, number, *, event_id="evt_2"):
    return hit(at, event_id=event_id, event_type="webhook.retry", announced=("evt_1", number))


def handshakes(number):
    return [hit(NOW + wait, event_id="", event_type="webhook.verification") for wait in range(number)]


def attempt(number=1, started_at=NOW, *, status=200, result="succeeded"):
    return AttemptRow(number=number, result=result, response_status=status, started_at=started_at, duration_seconds=0.1)


DELIVERY = DeliveryRow(
    id="dlv_1", event_id="evt_1", webhook_id="wh_1", path="/ok", state="succeeded", attempts=(attempt(),)
)
GOOD = Evidence(
    now=NOW,
    committed=frozenset({"evt_1"}),
    rolled_back=frozenset(),
    events=frozenset({"evt_1"}),
    subscribers=frozenset({"wh_1"}),
    deliveries=(DELIVERY,),
    hits=(hit(),),
    delays_seconds=(1, 5, 30),
)
PENDING = replace(DELIVERY, state="pending", attempts=())
LOST = attempt(result="worker_lost", status=None)
FAILED_FIVE_TIMES = [hit(NOW + wait, status=500) for wait in (0, 2, 8, 40, 80)]

BROKEN = [
    pytest.param({"deliveries": ()}, {"lost": 1}, id="an event without a delivery"),
    pytest.param({"events": frozenset(), "deliveries": ()}, {"lost": 1}, id="a committed event without a row"),
    pytest.param({"subscribers": frozenset({"wh_1", "wh_2"})}, {"lost": 1}, id="one of two webhooks left out"),
    pytest.param(
        {"now": NOW + 61, "deliveries": [replace(PENDING, next_attempt_at=NOW - 1)]}, {"stuck": 1}, id="overdue"
    ),
    pytest.param(
        {"now": NOW + 61, "deliveries": [replace(PENDING, next_attempt_at=None)]},
        {"stuck": 1},
        id="pending and never due",
    ),
    pytest.param(
        {"hits": [hit(), hit(NOW + 59, path="/other")], "now": NOW + 61, "deliveries": [replace(PENDING)]},
        {"stuck": 1},
        id="overdue while another receiver gets requests",
    ),
    pytest.param({"hits": ()}, {"false_successes": 1}, id="the receiver knows nothing of it"),
    pytest.param({"hits": [hit(status=204)]}, {"false_successes": 1}, id="the receiver answered 204"),
    pytest.param({"hits": [hit(path="/other")]}, {"false_successes": 1}, id="another webhook was answered 200"),
    pytest.param({"deliveries": [replace(DELIVERY, attempts=())]}, {"false_successes": 1}, id="without an attempt"),
    pytest.param(
        {"hits": FAILED_FIVE_TIMES, "deliveries": [replace(DELIVERY, state="given_up")]},
        {"too_many": 1},
        id="five requests",
    ),
    pytest.param({"hits": [hit(), notice(NOW, 1), notice(NOW, 1)]}, {"too_many": 1}, id="a notice twice"),
    pytest.param(
        {"hits": [hit(), notice(NOW, 1), notice(NOW, 1, event_id="evt_3")]}, {"too_many": 1}, id="two of one retry"
    ),
    pytest.param({"hits": [hit(), *handshakes(5)]}, {"too_many": 1}, id="five handshakes"),
    pytest.param({"hits": [hit(), hit(NOW + 2)]}, {"excess_duplicates": 1}, id="a request after a 200"),
    pytest.param(
        {"hits": [hit(), hit(NOW + 2)], "kills": 1}, {"excess_duplicates": 1}, id="a kill that lost no attempt of it"
    ),
    pytest.param(
        {"hits": [hit(), hit(NOW + 2)], "deliveries": [replace(DELIVERY, attempts=(LOST, attempt(2, NOW + 2)))]},
        {"excess_duplicates": 1},
        id="an attempt lost without a kill",
    ),
    pytest.param({"hits": [hit(status=500), hit(NOW + 0.9)]}, {"early": 1}, id="early by the receiver's log"),
    pytest.param(
        {"hits": [hit(status=500), hit(NOW + 2, status=500), hit(NOW + 6)]}, {"early": 1}, id="the second retry early"
    ),
    pytest.param(
        {"deliveries": [replace(DELIVERY, attempts=(attempt(1, status=500), attempt(2, NOW + 1)))]},
        {"early": 1},
        id="early by our rows",
    ),
    pytest.param({"admitted": {"wh_1": frozenset()}}, {"unwanted": 1}, id="queued in spite of a filter"),
    pytest.param({"dishonoured": ["request 1 has no X-Tenant"]}, {"dishonoured": 1}, id="a choice not honoured"),
    pytest.param(
        {"delays_by_path": {"/ok": (9, 9)}, "hits": [hit(status=500), hit(NOW + 8)]},
        {"early": 1},
        id="early by the webhook's own policy",
    ),
    pytest.param({"rolled_back": frozenset({"evt_1"})}, {"rolled_back": 3}, id="rolled back: row, delivery, request"),
]


def test_correct_evidence_has_no_violations():
    counts = count(GOOD)

    assert counts.broken == {}
    assert (counts.tried, counts.duplicates) == (1, 0)
    counts.check()


@pytest.mark.parametrize(("changes", "broken"), BROKEN)
def test_each_violation_is_counted(changes, broken):
    counts = count(replace(GOOD, **changes))

    assert counts.broken == broken
    with pytest.raises(AssertionError, match=next(iter(broken))):
        counts.check()


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"deliveries": (), "admitted": {"wh_1": frozenset()}}, id="a filtered event without a delivery"),
        pytest.param(
            {
                "hits": [hit(status=204)],
                "deliveries": [replace(DELIVERY, attempts=(attempt(status=204),))],
                "accepts_2xx": frozenset({"/ok"}),
            },
            id="204 where it confirms receipt",
        ),
        pytest.param(
            {
                "hits": FAILED_FIVE_TIMES,
                "deliveries": [replace(DELIVERY, state="given_up")],
                "delays_by_path": {"/ok": (1,) * 9},
            },
            id="five requests by a policy of ten",
        ),
    ],
)
def test_a_choice_changes_what_is_right(changes):
    assert count(replace(GOOD, **changes)).broken == {}


def test_a_duplicate_is_excused_by_a_kill_that_lost_its_attempt():
    deliveries = [replace(DELIVERY, attempts=(LOST, attempt(2, NOW + 2)))]

    counts = count(replace(GOOD, hits=[hit(), hit(NOW + 2)], deliveries=deliveries, kills=1))

    assert counts.broken == {}
    assert counts.duplicates == 1


def test_a_receiver_that_changes_its_answer_causes_no_excess():
    deliveries = [replace(DELIVERY, attempts=(LOST, attempt(2, NOW + 2, status=500), attempt(3, NOW + 8)))]
    hits = [hit(), hit(NOW + 2, status=500), hit(NOW + 8)]

    counts = count(replace(GOOD, hits=hits, deliveries=deliveries, kills=1))

    assert counts.broken == {}
    assert counts.duplicates == 2


@pytest.mark.parametrize(
    ("second_at", "broken"),
    [
        pytest.param(NOW + 2.2, {}, id="after the answer"),
        pytest.param(NOW + 2.05, {"out_of_order": 1}, id="before the answer to a retry"),
        pytest.param(NOW + 1, {"out_of_order": 1}, id="before a retry"),
        pytest.param(NOW - 1, {"out_of_order": 1}, id="before the first"),
    ],
)
def test_a_request_before_the_end_of_the_delivery_before_is_out_of_order(second_at, broken):
    hits = [hit(status=500), hit(NOW + 2), hit(second_at, event_id="evt_2")]

    counts = count(replace(GOOD, hits=hits, groups=[[("evt_1", "/ok"), ("evt_2", "/ok"), ("evt_3", "/ok")]]))

    assert counts.broken == broken


def test_notices_and_handshakes_after_a_200_are_no_duplicates():
    hits = [hit(), *handshakes(4), notice(NOW + 2, 1), notice(NOW + 8, 2)]

    counts = count(replace(GOOD, hits=hits))

    assert (counts.broken, counts.duplicates) == ({}, 0)


def test_verifying_again_is_a_new_series():
    again = [
        DeliveryRow(id=f"dlv_{n}", event_id="", webhook_id="wh_1", path="/ok", state="given_up", kind="verification")
        for n in (2, 3)
    ]

    assert count(replace(GOOD, deliveries=[DELIVERY, *again], hits=[hit(), *handshakes(8)])).too_many == 0
    assert count(replace(GOOD, deliveries=[DELIVERY, *again], hits=[hit(), *handshakes(9)])).too_many == 1


def test_a_redelivery_is_a_new_series():
    again = replace(DELIVERY, id="dlv_2", is_redelivery=True)
    hits = [hit(NOW + wait, status=500) for wait in (0, 2, 8, 40)] + [hit(NOW + 41)]

    notices = [notice(NOW, 1), notice(NOW + 42, 1, event_id="evt_3")]

    assert count(replace(GOOD, deliveries=[DELIVERY, again], hits=[*hits, *notices])).too_many == 0


LATER = replace(PENDING, id="dlv_2", event_id="evt_2", next_attempt_at=NOW - 300)


@pytest.mark.parametrize(
    ("changes", "exit_code", "sentence"),
    [
        pytest.param({}, 0, "Nothing is broken.", id="all final"),
        pytest.param({"hits": ()}, 1, "broken: false_successes 1", id="final and wrong"),
        pytest.param(
            {"deliveries": [DELIVERY, LATER], "now": NOW + 2, "events": frozenset({"evt_1", "evt_2"})},
            3,
            "Not judged: 1 deliveries are still in progress: 1 to /ok (last request 2 s ago).",
            id="a slow receiver with many overdue events",
        ),
        pytest.param(
            {"deliveries": [DELIVERY, LATER], "now": NOW + 61},
            1,
            "broken: stuck 1",
            id="a receiver that gets nothing of what is due",
        ),
        pytest.param(
            {"deliveries": [replace(DELIVERY, attempts=()), LATER], "now": NOW + 2},
            1,
            "broken: false_successes 1",
            id="a violation beside deliveries in progress",
        ),
        pytest.param(
            {"deliveries": (), "committed": frozenset(), "events": frozenset()},
            3,
            "Not judged: there was no delivery.",
            id="nothing tried",
        ),
    ],
)
def test_a_run_is_judged_once_everything_is_final(changes, exit_code, sentence):
    verdict = judge(replace(GOOD, **changes))

    assert (verdict.exit_code, verdict.sentence) == (exit_code, sentence)


@pytest.mark.parametrize(
    "hits",
    [
        pytest.param([hit(), hit(NOW + 2)], id="repeated after a worker was lost, which no row says yet"),
        pytest.param([hit(status=500), hit(NOW + 0.5)], id="a request of a lost worker, which no row says yet"),
    ],
)
def test_requests_for_a_delivery_in_progress_are_not_judged(hits):
    in_progress = replace(PENDING, next_attempt_at=NOW)

    assert judge(replace(GOOD, deliveries=[in_progress], hits=hits, kills=1)).exit_code == 3
    assert judge(replace(GOOD, deliveries=[replace(DELIVERY)], hits=hits)).exit_code == 1


@pytest.mark.parametrize(
    ("temper", "least"),
    [
        pytest.param("ok", 1, id="quick"),
        pytest.param("fails-2", 1, id="quick and failing"),
        pytest.param("slow-0.5", 2, id="half a second for each of two events a second, twice"),
        pytest.param("hangs", 140, id="five seconds for each of four attempts and three notices, twice"),
    ],
)
def test_receivers_can_keep_up_with_the_events(temper, least):
    assert least_in_flight(temper) == least
