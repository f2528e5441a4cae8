"""Pure decisions about the result of an attempt and the next step of its delivery."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from ..models import Delivery, DeliveryAttempt, Webhook
from ..protocol.handshake import refusal_of_answer
from ..reasons import ReasonText
from ..retry import BaseRetryPolicy
from ..transport import Exchange, Response

Result = DeliveryAttempt.Result
ANY_SUCCESS = Webhook.AcceptedStatuses.SUCCESS.value
State = Delivery.State


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """The result of one attempt, and a sentence about it for the owner of the webhook."""

    result: Result
    message: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class NextStep:
    """The next state of a delivery. ``next_attempt_at`` is set only for a pending one."""

    state: State
    next_attempt_at: datetime | None = None


SUCCESS = Verdict(result=Result.SUCCEEDED)
NOTHING_MORE = NextStep(state=State.SUCCEEDED)


def judge(exchange: Exchange, challenge: str = "", *, accepted: str = "200") -> Verdict:
    """Return the result of an exchange for the accepted statuses. A handshake requires 200 and its challenge."""
    if exchange.error is not None:
        return Verdict(result=Result(exchange.error.error_class.value), message=exchange.error.message)
    assert exchange.response is not None
    status = exchange.response.status
    if status != 200 and (challenge or accepted != ANY_SUCCESS or not 200 <= status < 300):
        return Verdict(result=Result.HTTP_STATUS, message=_why_not(status, "200" if challenge else accepted))
    if challenge and (refusal := _refusal_of(challenge, exchange.response)):
        return Verdict(result=Result.WRONG_CHALLENGE, message=refusal)
    return SUCCESS


def next_step(
    result: Result,
    *,
    attempt_number: int,
    max_attempts: int,
    ended_at: datetime,
    policy: BaseRetryPolicy,
    retry_after: timedelta | None = None,
) -> NextStep:
    """Return the step after attempt ``attempt_number`` (from 1) that ended at ``ended_at``."""
    if result is Result.SUCCEEDED:
        return NOTHING_MORE
    retry_at = None
    if attempt_number < max_attempts:
        retry_at = policy.next_attempt_at(attempt_number, ended_at, retry_after=retry_after)
    if retry_at is None:
        return NextStep(state=State.GIVEN_UP)
    return NextStep(state=State.PENDING, next_attempt_at=retry_at)


def _refusal_of(challenge: str, response: Response) -> str:
    coding = next((value for name, value in response.headers if name.lower() == "content-encoding"), "")
    return refusal_of_answer(challenge, response.body, content_encoding=coding, body_problem=response.body_problem)


def _why_not(status: int, accepted: str) -> ReasonText:
    if 200 <= status < 300:
        return ReasonText("status_not_200_but_2xx", status=status)
    kind = "redirect" if 300 <= status < 400 else "status"
    return ReasonText(f"{kind}_not_{'2xx' if accepted == ANY_SUCCESS else '200'}", status=status)
