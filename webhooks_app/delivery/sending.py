"""From a claim to the request on the wire, and from its exchange to what is recorded."""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from .. import __version__
from ..encryption import decrypt
from ..exceptions import SecretUnreadableError, WebhooksError
from ..handshake import challenge_body, new_challenge
from ..models import Delivery
from ..retry import RetrySchedule
from ..signing import signed_headers
from ..transport import Exchange, Request
from .attempt_log import AttemptLog, log_exchange, log_unsent
from .claim import Claim, Finished
from .lanes import Lane
from .outcome import Result, Verdict, judge, next_step

logger = logging.getLogger("webhooks_app.delivery")

LOST_SPREAD = timedelta(seconds=3)
"""Over how long the retries of attempts that were found lost together are spread."""

USER_AGENT = ("User-Agent", f"webhooks_app/{__version__}")


class Sending(NamedTuple):
    """A claimed attempt on the wire."""

    claim: Claim
    started_at: datetime
    challenge: str = ""


def request_for(claim: Claim, *, now: datetime, timeout_seconds: float) -> Request:
    """Return the signed request of a claim. Raises SecretUnreadableError."""
    challenge = new_challenge() if claim.pick.kind == Delivery.Kind.VERIFICATION else ""
    body = challenge_body(challenge) if challenge else claim.body
    if claim.pick.expires_at is not None:
        timeout_seconds = min(timeout_seconds, max((claim.pick.expires_at - now).total_seconds(), 0.001))
    headers = signed_headers(
        claim.lane.secret,
        int(now.timestamp()),
        claim.event_type,
        body,
        previous_secret=_previous_secret(claim.lane, now),
    )
    return Request(
        url=claim.lane.url,
        headers=(*headers, USER_AGENT),
        body=body,
        timeout_seconds=timeout_seconds,
        context=Sending(claim, now, challenge),
    )


def _previous_secret(lane: Lane, now: datetime) -> str:
    """Return the secret that signs beside the current one while a rotation overlaps; "" if none does."""
    if lane.previous_secret_until is None or lane.previous_secret_until <= now:
        return ""
    try:
        return decrypt(lane.encrypted_previous_secret)
    except SecretUnreadableError:
        # What the current secret signs is still right for every receiver that has switched.
        logger.exception("Webhook %s is signed without its previous secret.", lane.webhook_id)
        return ""


def finish(exchange: Exchange, schedule: RetrySchedule, *, seen_at: datetime | None = None) -> Finished:
    """Decide what follows from an exchange, and write its log.

    A retry counts from ``seen_at``, when the end was seen: start and duration are of two clocks, and a process that was
    held up between reading them would take the end for earlier than it was. Without it, they are all there is.
    """
    sending: Sending = exchange.request.context
    verdict = judge(exchange, sending.challenge)
    attempt = log_exchange(
        delivery_id=sending.claim.delivery_id,
        number=sending.claim.number,
        verdict=verdict,
        exchange=exchange,
        started_at=sending.started_at,
        challenge=sending.challenge,
    )
    ended_at = seen_at or sending.started_at + timedelta(seconds=exchange.duration_seconds)
    return _finished(sending.claim, attempt, verdict, ended_at, schedule)


def finish_lost(claim: Claim, now: datetime, schedule: RetrySchedule) -> Finished:
    """Record that the worker which made an attempt never came back: a failed attempt, whatever the receiver saw.

    It ends ``now``, when this is found out, so that the retry is not earlier than the schedule says.
    """
    lost = Verdict(
        result=Result.WORKER_LOST,
        message="The worker that made this attempt ended before it could record the answer.",
    )
    return _finished_unsent(claim, lost, now, schedule)


def finish_all_lost(claims: Sequence[Claim], now: datetime, schedule: RetrySchedule) -> list[Finished]:
    """Record that the workers of these attempts never came back, and spread the retries, each time otherwise.

    If one of them kills its worker, it takes others along; together again, they would all be given up with it.
    """
    apart = LOST_SPREAD / max(1, len(claims))
    shuffled = random.sample(claims, len(claims))
    return [finish_lost(claim, now + place * apart, schedule) for place, claim in enumerate(shuffled)]


def finish_unsent(claim: Claim, error: Exception, now: datetime, schedule: RetrySchedule) -> Finished:
    """Record an attempt for which no request could be made."""
    message = str(error) if isinstance(error, WebhooksError) else "The request could not be made; the log says why."
    return _finished_unsent(claim, Verdict(result=Result.INTERNAL_ERROR, message=message), now, schedule)


def _finished_unsent(claim: Claim, verdict: Verdict, now: datetime, schedule: RetrySchedule) -> Finished:
    attempt = log_unsent(
        delivery_id=claim.delivery_id,
        number=claim.number,
        verdict=verdict,
        url=claim.lane.url,
        started_at=claim.pick.lost_since or now,
    )
    return _finished(claim, attempt, verdict, now, schedule)


def _finished(
    claim: Claim, attempt: AttemptLog, verdict: Verdict, ended_at: datetime, schedule: RetrySchedule
) -> Finished:
    step = next_step(
        verdict.result,
        attempt_number=claim.number,
        max_attempts=claim.pick.max_attempts,
        ended_at=ended_at,
        schedule=schedule,
    )
    return Finished(claim, attempt, step, ended_at)
