"""The request of a claim, and the result of its exchange."""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from ..conf import policy_of_delivery, user_agent
from ..database.sql import kind_of
from ..exceptions import WebhooksError
from ..models import Delivery
from ..models.disclosure import masks
from ..models.status import PROBES
from ..protocol.handshake import challenge_body, new_challenge
from ..reasons import ReasonText
from ..retry import SpecificationPolicy, parse_retry_after
from ..signatures import Message
from ..transport import BODY_SECONDS, RESPONSE_KEPT, RESPONSE_READ_LIMIT, Exchange, Request
from .claim import Claim, Finished
from .outcome import (
    NOTHING_MORE,
    AttemptLog,
    AttemptOutcome,
    Result,
    clean_message,
    kept_body,
    kept_headers,
    next_step,
    outcome_of,
)

logger = logging.getLogger("webhooks_app.delivery")

LOST_SPREAD = timedelta(seconds=3)
"""Time over which the retries of attempts lost together are distributed."""

NOT_MADE = ReasonText("request_not_made")

CONTENT_TYPE = ("Content-Type", "application/json")


class Sending(NamedTuple):
    """A claimed attempt in flight."""

    claim: Claim
    started_at: datetime
    challenge: str = ""
    timestamp: int = 0
    signatures: str = ""
    header_names: str = ""
    agent: str = ""
    span: Any = None
    """The span of the attempt, if the worker traces."""


def request_for(claim: Claim, *, now: datetime, timeout_seconds: float, agent: str = "") -> Request:
    """Return the signed request of a claim. Raise SecretUnreadableError or SchemeUnavailableError if that fails.

    ``agent`` is its User-Agent, by default that of the settings.
    """
    agent = agent or user_agent()
    lane = claim.lane
    challenge = new_challenge() if claim.kind == Delivery.Kind.VERIFICATION else ""
    body = challenge_body(challenge) if challenge else claim.body
    if claim.expires_at is not None:
        timeout_seconds = min(timeout_seconds, max((claim.expires_at - now).total_seconds(), 0.001))
    timestamp = int(now.timestamp())
    message = Message(claim.event_id or claim.delivery_id, claim.event_type, timestamp, body)
    headers, signatures = lane.signer.sign(message, now)
    header_names = ""
    if lane.encrypted_headers:
        own = lane.own_headers
        headers, header_names = (*headers, *own), ",".join(name for name, _ in own)
    return Request(
        url=lane.url,
        headers=(CONTENT_TYPE, *headers, ("User-Agent", agent)),
        body=body,
        timeout_seconds=timeout_seconds,
        context=Sending(claim, now, challenge, timestamp, signatures, header_names, agent),
        owner=str(lane.owner_id or ""),
        probe=claim.delivery_id if claim.kind in PROBES else "",
        fresh_connection=claim.number > 1,  # a reused connection may have caused the last failure
        response_kept=RESPONSE_READ_LIMIT if challenge else RESPONSE_KEPT,
        body_seconds=timeout_seconds if challenge else BODY_SECONDS,
    )


def finish(exchange: Exchange, *, seen_at: datetime | None = None) -> Finished:
    """Return the log of an exchange and the next step.

    Retries count from ``seen_at``, the time when the end was noticed. Without it the end is calculated from the start
    and the duration, which are of different clocks. A process delayed between reading them would get a time too early.
    """
    sending: Sending = exchange.request.context
    claim, response = sending.claim, exchange.response
    outcome = outcome_of(exchange, sending.challenge, accepted=claim.lane.accepted_statuses)
    headers, retry_after = kept_headers(response.headers) if response else ((), "")
    attempt = AttemptLog(
        delivery_id=claim.delivery_id,
        number=claim.number,
        result=outcome.result.value,
        message=outcome.message and clean_message(outcome.message),
        started_at=sending.started_at,
        url=exchange.request.url,
        duration_ms=int(exchange.duration_seconds * 1000 + 0.5),
        timestamp=sending.timestamp,
        signatures=sending.signatures,
        challenge=sending.challenge,
        response_status=response.status if response else None,
        response_headers=headers,
        response_body=kept_body(response.body if response else exchange.received),
        retry_after=retry_after,
        peer=exchange.peer,
        timings={stage: int(seconds * 1000 + 0.5) for stage, seconds in exchange.timings.items()},
        header_names=sending.header_names,
        agent=sending.agent,
    )
    ended_at = seen_at or sending.started_at + timedelta(seconds=exchange.duration_seconds)
    return _finished(claim, attempt, outcome, ended_at)


def finish_lost(claim: Claim, now: datetime) -> Finished:
    """Return the result of an attempt whose worker was lost: a failed attempt, regardless of the receiver.

    It ends ``now``, at the time of detection, so that the retry is not earlier than its policy allows.
    """
    lost = AttemptOutcome(result=Result.WORKER_LOST, message=ReasonText("worker_lost"))
    return _finished_unsent(claim, lost, now)


def finish_all_lost(claims: Sequence[Claim], now: datetime) -> list[Finished]:
    """Return the results of attempts whose workers were lost, with their retries distributed in random order.

    If one of the deliveries crashes its worker, the others fail too. Retried together, all of them would be given up.
    """
    apart = LOST_SPREAD / max(1, len(claims))
    shuffled = random.sample(claims, len(claims))
    return [finish_lost(claim, now + place * apart) for place, claim in enumerate(shuffled)]


def finish_unsent(claim: Claim, error: Exception, now: datetime) -> Finished:
    """Return the result of an attempt without a valid request."""
    message = str(error) if isinstance(error, WebhooksError) else NOT_MADE
    return _finished_unsent(claim, AttemptOutcome(result=Result.INTERNAL_ERROR, message=message), now)


def _finished_unsent(claim: Claim, outcome: AttemptOutcome, now: datetime) -> Finished:
    message = outcome.message and clean_message(outcome.message)
    started_at = claim.lost_since or now
    attempt = AttemptLog(*claim.key, outcome.result.value, message, started_at, claim.lane.url)
    return _finished(claim, attempt, outcome, now)


def _finished(claim: Claim, attempt: AttemptLog, outcome: AttemptOutcome, ended_at: datetime) -> Finished:
    if outcome.result is Result.SUCCEEDED:
        return Finished(claim, attempt, NOTHING_MORE, ended_at)
    # The claim read the status together with the URL to which the request was sent.
    if masks(outcome.result, is_handshake=claim.kind == Delivery.Kind.VERIFICATION, status=claim.lane.status):
        attempt = attempt._replace(is_masked=True)
    retry_after = parse_retry_after(attempt.retry_after, ended_at) if attempt.retry_after else None
    plan = partial(
        next_step,
        outcome.result,
        attempt_number=max(1, claim.number),
        max_attempts=claim.max_attempts,
        ended_at=ended_at,
        retry_after=retry_after,
    )
    try:
        step = plan(policy=policy_of_delivery(claim.retry_policy))
    except Exception as error:  # noqa: BLE001 - the host's policy may raise anything
        text = "The retry policy of delivery %s to webhook %s failed: %s. The default one is used."
        logger.error(text, claim.delivery_id, claim.webhook_id, kind_of(error))  # noqa: TRY400 - may quote a row
        step = plan(policy=SpecificationPolicy())
    return Finished(claim, attempt, step, ended_at)
