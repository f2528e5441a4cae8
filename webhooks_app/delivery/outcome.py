"""What follows from an attempt: a pure decision that the queue only carries out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ..handshake import refusal_of_answer
from ..models.delivery import Delivery, DeliveryAttempt
from ..retry import RetrySchedule
from ..transport import Exchange

Result = DeliveryAttempt.Result
State = Delivery.State


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """The result of one attempt and a sentence about it for the webhook's owner."""

    result: Result
    message: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class NextStep:
    """What becomes of the delivery; ``next_attempt_at`` is set if, and only if, it stays pending."""

    state: State
    next_attempt_at: datetime | None = None


TLS_FAILED = "No trusted TLS connection could be made."

SUCCESS = Verdict(result=Result.SUCCEEDED)
NOTHING_MORE = NextStep(state=State.SUCCEEDED)


def judge(exchange: Exchange, challenge: str = "") -> Verdict:
    """Judge one exchange: status 200 alone is success, and for a handshake the challenge must come back."""
    if exchange.error is not None:
        return Verdict(result=Result(exchange.error.error_class.value), message=exchange.error.message)
    assert exchange.response is not None
    status = exchange.response.status
    if status != 200:
        return Verdict(result=Result.HTTP_STATUS, message=_why_not_200(status))
    if challenge and (refusal := refusal_of_answer(challenge, exchange.response.body)):
        return Verdict(result=Result.WRONG_CHALLENGE, message=refusal)
    return SUCCESS


def told_of_probe(result: str, message: str) -> str:
    """Return the message of a test's or a handshake's attempt as its caller may read it.

    Whoever may ask for one could otherwise read certificates wherever a URL can point.
    """
    return TLS_FAILED if result == Result.TLS_ERROR else message


def next_step(
    result: Result, *, attempt_number: int, max_attempts: int, ended_at: datetime, schedule: RetrySchedule
) -> NextStep:
    """Decide what follows attempt ``attempt_number`` (from 1) that ended at ``ended_at``."""
    if result is Result.SUCCEEDED:
        return NOTHING_MORE
    retry_at = schedule.next_attempt_at(attempt_number, ended_at) if attempt_number < max_attempts else None
    if retry_at is None:
        return NextStep(state=State.GIVEN_UP)
    return NextStep(state=State.PENDING, next_attempt_at=retry_at)


def _why_not_200(status: int) -> str:
    if 200 <= status < 300:
        return f"Answered with status {status}. Only status 200 confirms receipt; other 2xx statuses do not."
    if 300 <= status < 400:
        return f"Answered with the redirect {status}. Redirects are not followed; only status 200 confirms receipt."
    return f"Answered with status {status}. Only status 200 confirms receipt."
