"""Checks of the demo's results against the specification."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from webhooks_app.event_types import RETRY_NOTICE, VERIFICATION
from webhooks_app.receiver.local import Received
from webhooks_app.signatures import SIGNATURE_HEADER, TIMESTAMP_HEADER

from .cast import ALL_TYPES, Player

MOST_LATE_SECONDS = float(os.environ.get("DEMO_MOST_LATE_SECONDS", "2"))
"""On a machine that does other work, programs wait for the processor, and requests for them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    text: str
    holds: bool
    found: str = ""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Results of the demo, from the receivers and from the service's API."""

    players: Mapping[str, Player]
    expected: Counter[str]
    cancelled_id: str
    announced_pages: int
    downloaded_pages: int
    test_event_id: str
    forgery_status: int
    forgery_answer: Mapping[str, Any]
    webhooks: Mapping[str, Mapping[str, Any]]
    refused_deliveries: Sequence[Mapping[str, Any]]


def claims(evidence: Evidence) -> Iterator[Claim]:
    """Yield all checks with their results."""
    yield from _registration(evidence)
    yield from _events(evidence)
    yield from _retries(evidence)
    yield from _giving_up(evidence)
    yield from _forgeries(evidence)
    yield _punctuality(evidence.players.values())


def _registration(evidence: Evidence) -> Iterator[Claim]:
    for name in ("steady", "stumbling", "refusing"):
        handshakes = evidence.players[name].series(VERIFICATION.name)
        statuses = [status for one in handshakes for status in one.statuses]
        yield _equal(f"{name} passed the handshake at the first attempt", statuses, [200])
        yield _equal(f"{name} is active", evidence.webhooks[name]["status"], "active")
    impostor = evidence.players["impostor"]
    challenges = [str(r.message["data"]["challenge"]) for r in impostor.receiver.received if r.is_verification]
    yield _equal("impostor received 4 challenges", len(challenges), 4)
    yield _equal("each challenge was different", len(set(challenges)), 4)
    yield _equal("impostor failed the handshake", evidence.webhooks["impostor"]["status"], "failed")
    yield Claim(text="its webhook shows the reason", holds=bool(evidence.webhooks["impostor"]["status_reason"]))
    yield _equal("impostor received no event", len(impostor.receiver.events()), 0)


def _events(evidence: Evidence) -> Iterator[Claim]:
    steady, platform = evidence.players["steady"], evidence.players["platform"]
    real = [r for r in steady.receiver.events() if r.event_id != evidence.test_event_id]
    seen = Counter(r.type for r in real if not _is_start_of(r, evidence.cancelled_id))
    yield _equal("steady received every event exactly once", seen, evidence.expected)
    registered = platform.receiver.events()
    yield _equal("only the platform's webhook received user.registered", [r.type for r in registered], _REGISTERED)
    types = {r.type for r in (*real, *registered)}
    yield _equal("all 13 event types were delivered", sorted(types), sorted(ALL_TYPES))
    yield _equal(
        "the .pptx has as many slides as the event announced", evidence.downloaded_pages, evidence.announced_pages
    )
    tests = [r for r in steady.receiver.events() if r.event_id == evidence.test_event_id]
    yield _equal("the test event had the usual envelope", [list(r.message) for r in tests], [_ENVELOPE])


_REGISTERED = ["user.registered"]
_ENVELOPE = ["id", "type", "created", "data"]


def _retries(evidence: Evidence) -> Iterator[Claim]:
    stumbling = evidence.players["stumbling"]
    requests = stumbling.receiver.events("file.uploaded")
    yield _equal("stumbling received 3 requests", [r.status for r in requests], [500, 500, 200])
    yield _equal("all with the same body", len({r.body for r in requests}), 1)
    yield _equal("each with a new timestamp and signature", len({_signature(r) for r in requests}), 3)
    yield _equal("two notices announced the retries", _announced(stumbling), [1, 2])


def _giving_up(evidence: Evidence) -> Iterator[Claim]:
    refusing = evidence.players["refusing"]
    yield _equal("refusing received exactly 4 requests", len(refusing.receiver.events("user.subscribed")), 4)
    yield _equal("three notices announced the retries", _announced(refusing), [1, 2, 3])
    ends = [(delivery["state"], delivery["attempt_count"]) for delivery in evidence.refused_deliveries]
    yield _equal("its delivery is given up", ends, [("given_up", 4)])


def _forgeries(evidence: Evidence) -> Iterator[Claim]:
    wrong = [r.problem for p in evidence.players.values() for r in p.receiver.received if not r.is_verified]
    yield _equal("only the forgery had an invalid signature", len(wrong), 1)
    yield _equal("the forgery was answered with 400", evidence.forgery_status, 400)
    yield Claim(text="with an error in JSON", holds=bool(evidence.forgery_answer.get("error")))


def _punctuality(players: Any) -> Claim:
    late = [seconds for player in players for one in player.series() for seconds in one.late_seconds]
    earliest, latest = min(late, default=0.0), max(late, default=0.0)
    return Claim(
        text=f"no request was early, or more than {MOST_LATE_SECONDS:g} s late",
        holds=earliest >= 0 and latest <= MOST_LATE_SECONDS,
        found=f"between {earliest:.3f} s and {latest:.3f} s",
    )


def _announced(player: Player) -> list[int]:
    return [r.message["data"]["retry_count"] for r in player.receiver.events(RETRY_NOTICE.name)]


def _is_start_of(received: Received, presentation_id: str) -> bool:
    """Return True for the start of the cancelled presentation, which may or may not be emitted."""
    return received.type == "ppt.generation.started" and received.message["data"]["ppt_id"] == presentation_id


def _signature(received: Received) -> tuple[str | None, str | None]:
    headers = {name.lower(): value for name, value in received.headers}
    return headers.get(TIMESTAMP_HEADER.lower()), headers.get(SIGNATURE_HEADER.lower())


def _equal(text: str, found: Any, wanted: Any) -> Claim:
    return Claim(text=text, holds=found == wanted, found=f"{found!r}, not {wanted!r}")
