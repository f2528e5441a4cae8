"""Pure decisions about the result of an attempt and the next step of its delivery, and the log of the attempt.

The log holds the request and the response as text that any database can store.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from ..models import Delivery, DeliveryAttempt, Webhook
from ..protocol.handshake import refusal_of_answer
from ..protocol.ids import attempt_id
from ..reasons import ReasonText, code_of
from ..retry import BaseRetryPolicy
from ..transport import RESPONSE_KEPT, Exchange, Response

Result = DeliveryAttempt.Result
ANY_SUCCESS = Webhook.AcceptedStatuses.SUCCESS.value
State = Delivery.State

MAX_HEADERS = 100
MAX_HEADER_LENGTH = 1000
MAX_MESSAGE_LENGTH = 500

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_LINE_BREAK = re.compile(r"[\t\r\n]")


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptOutcome:
    """The result of one attempt, and a sentence about it for the owner of the webhook."""

    result: Result
    message: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class NextStep:
    """The next state of a delivery. ``next_attempt_at`` is set only for a pending one."""

    state: State
    next_attempt_at: datetime | None = None


SUCCESS = AttemptOutcome(result=Result.SUCCEEDED)
NOTHING_MORE = NextStep(state=State.SUCCEEDED)


def outcome_of(exchange: Exchange, challenge: str = "", *, accepted: str = "200") -> AttemptOutcome:
    """Return the result of an exchange for the accepted statuses. A handshake requires 200 and its challenge."""
    if exchange.error is not None:
        return AttemptOutcome(result=Result(exchange.error.error_class.value), message=exchange.error.message)
    assert exchange.response is not None
    status = exchange.response.status
    if status != 200 and (challenge or accepted != ANY_SUCCESS or not 200 <= status < 300):
        return AttemptOutcome(result=Result.HTTP_STATUS, message=_why_not(status, "200" if challenge else accepted))
    if challenge and (refusal := _refusal_of(challenge, exchange.response)):
        return AttemptOutcome(result=Result.WRONG_CHALLENGE, message=refusal)
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


Headers = tuple[tuple[str, str], ...]


class AttemptLog(NamedTuple):
    """A row of DeliveryAttempt as plain values, in the order of the table's columns."""

    delivery_id: str
    number: int
    result: str
    message: str
    started_at: datetime
    url: str
    duration_ms: int | None = None
    timestamp: int | None = None
    signatures: str = ""
    challenge: str = ""
    response_status: int | None = None
    response_headers: Headers = ()
    response_body: str = ""
    retry_after: str = ""
    peer: str = ""
    timings: Mapping[str, int] = MappingProxyType({})
    header_names: str = ""
    agent: str = ""
    is_masked: bool = False
    """Whether the owner may not see the cause, see ``models.disclosure``."""

    @property
    def id(self) -> str:
        """The public identifier of the attempt."""
        return attempt_id(self.delivery_id, self.number)

    @property
    def message_code(self) -> str:
        """The code of the message: "" without one, ``text`` if the host's transport wrote it."""
        return code_of(self.message)

    def without_response_text(self) -> AttemptLog:
        return self._replace(response_headers=(), response_body="", retry_after="")


def clean(text: str, limit: int) -> str:
    """Return text that every database can store and every page can show, cut to ``limit`` characters.

    Lone surrogates are replaced, and control characters except tabs and line breaks, because terminals execute them.
    """
    if not text.isascii():
        text = text.encode(errors="replace").decode()
    return _CONTROL.sub("�", text[:limit])


def clean_message(text: str) -> str:
    """Return the message of an outcome in a form that can be stored."""
    cleaned = clean(text, MAX_MESSAGE_LENGTH)
    return text if text == cleaned else cleaned  # a reason keeps its code


def _clean_line(text: str, limit: int) -> str:
    return _LINE_BREAK.sub(" ", clean(text, limit))


@lru_cache(maxsize=64)
def kept_headers(headers: Headers) -> tuple[Headers, str]:
    """Return the headers to store, and Retry-After. Cached, because a receiver often repeats its headers."""
    kept = tuple(
        (_clean_line(name, MAX_HEADER_LENGTH), _clean_line(value, MAX_HEADER_LENGTH))
        for name, value in headers[:MAX_HEADERS]
    )
    return kept, next((value[:100] for name, value in kept if name.lower() == "retry-after"), "")


def kept_body(body: bytes) -> str:
    """Return the part of a body to store."""
    return clean(body[:RESPONSE_KEPT].decode(errors="replace"), RESPONSE_KEPT)
