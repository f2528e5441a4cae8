"""The demo notices deviations from the specification."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.message import Message

import pytest

from example_project.demo import timing
from example_project.demo.cast import on_stage
from example_project.demo.claims import Evidence, claims
from example_project.demo.report import table
from webhooks_app.receiver.local import Received
from webhooks_app.signatures import signed_headers

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
NOTHING_ELSE = {
    "cancelled_id": "ppt_0",
    "announced_pages": 2,
    "downloaded_pages": 2,
    "test_event_id": "evt_test",
    "forgery_status": 400,
    "forgery_answer": {"error": "no"},
    "webhooks": {
        name: {"status": "active", "status_reason": ""} for name in ("steady", "stumbling", "refusing", "impostor")
    },
    "refused_deliveries": [{"state": "given_up", "attempt_count": 4}],
}


@pytest.fixture
def players():
    with on_stage(lambda player, received: None) as players:
        for player in players.values():
            player.registered("wh_1", datetime.now(UTC))
        yield players


def _send(player, event_type, event_id="evt_1", *, secret=None, **data):
    """Pass an event to a player as if it came over the network."""
    message = {"id": event_id, "type": event_type, "created": datetime.now(UTC).isoformat(), "data": data}
    body = json.dumps(message).encode()
    headers = Message()
    for name, value in signed_headers(secret or player.secret, int(datetime.now(UTC).timestamp()), event_type, body):
        headers[name] = value
    player.receiver.receive("/", headers, body)


def _failing(players, expected=(), **changes):
    evidence = Evidence(players=players, expected=Counter(expected), **{**NOTHING_ELSE, **changes})
    return {claim.text for claim in claims(evidence) if not claim.holds}


def test_four_requests_are_as_specified_and_a_fifth_is_not(players):
    claim = "refusing received exactly 4 requests"
    for _ in range(4):
        _send(players["refusing"], "user.subscribed")
    assert claim not in _failing(players)

    _send(players["refusing"], "user.subscribed")

    assert claim in _failing(players)


def test_lost_and_repeated_events_are_noticed(players):
    claim = "steady received every event exactly once"
    assert claim in _failing(players, ["file.uploaded"])

    _send(players["steady"], "file.uploaded")
    assert claim not in _failing(players, ["file.uploaded"])

    _send(players["steady"], "file.uploaded")
    assert claim in _failing(players, ["file.uploaded"])


def test_the_start_of_a_cancelled_generation_is_optional(players):
    _send(players["steady"], "ppt.generation.started", ppt_id="ppt_0")

    assert "steady received every event exactly once" not in _failing(players)


def test_an_invalid_signature_is_noticed(players):
    claim = "only the forgery had an invalid signature"
    _send(players["steady"], "file.uploaded", secret="a secret of somebody else")  # The forgery.
    assert claim not in _failing(players)

    _send(players["steady"], "file.uploaded", secret="a secret of somebody else")

    assert claim in _failing(players)


@pytest.mark.parametrize(
    ("changes", "claim"),
    [
        pytest.param({"downloaded_pages": 1}, "the .pptx has as many slides as the event announced", id="pages"),
        pytest.param({"forgery_status": 200}, "the forgery was answered with 400", id="forgery"),
        pytest.param({"refused_deliveries": []}, "its delivery is given up", id="delivery"),
        pytest.param({}, "impostor failed the handshake", id="webhook"),
    ],
)
def test_the_services_answers_are_checked(players, changes, claim):
    assert claim in _failing(players, **changes)


def _received(seconds, event_id="evt_1", event_type="file.uploaded", status=500):
    return Received(
        at=NOW + timedelta(seconds=seconds),
        path="/",
        headers=(),
        body=b"",
        message={"id": event_id, "type": event_type, "created": NOW.isoformat()},
        problem="",
        is_verified=True,
        copy=1,
        is_duplicate=False,
        status=status,
    )


def test_delays_are_measured_from_the_event_and_the_schedule():
    requests = [_received(0.25), _received(1.5), _received(6.5), _received(36.75, status=200)]

    (series,) = timing.series("steady", requests, NOW)

    assert series.late_seconds == (0.25, 0.25, 0.0, 0.25)
    assert series.statuses == (500, 500, 500, 200)


def test_a_handshake_is_due_when_its_webhook_is_registered():
    handshake = replace(_received(2), message={"type": "webhook.verification", "data": {}})

    (series,) = timing.series("steady", [handshake], NOW + timedelta(seconds=1))

    assert series.late_seconds == (1,)


def test_the_table_has_a_row_for_each_type_and_receiver():
    requests = [
        _received(0.01, "evt_1", status=200),
        _received(0.02, "evt_2", status=200),
        _received(3, "evt_3", "x.y"),
    ]

    lines = [line.split() for line in table(timing.series("steady", requests, NOW))]

    assert lines[2] == ["file.uploaded", "steady", "2", "2", "200", "20"]
    assert lines[3] == ["x.y", "steady", "1", "1", "500", "3000"]
