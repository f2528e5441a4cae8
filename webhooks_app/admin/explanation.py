"""Why a delivery stands where it stands: one sentence about each outcome, and one about what follows from it."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.utils import timezone
from django.utils.html import format_html
from django.utils.translation import gettext

from ..models import Delivery, DeliveryAttempt
from ..models.hold import HoldReason, holds_of
from .display import in_time, moment
from .reasons import translated

MAX_DELAYS = 12


def why(attempt: DeliveryAttempt) -> str:
    """Return why an attempt had the result that it had."""
    if attempt.message:
        return translated(attempt.message)
    if attempt.result != DeliveryAttempt.Result.SUCCEEDED:
        return str(attempt.get_result_display())
    if attempt.challenge:
        return gettext("Answered with status 200 and the challenge that was sent.")
    return gettext("Answered with status %(status)s, which confirms receipt.") % {"status": attempt.response_status}


def what_followed(attempt: DeliveryAttempt, following: DeliveryAttempt | None, delivery: Delivery) -> str:
    """Return what came after an attempt, when, and why then."""
    if following is not None:
        return gettext("It was tried again %(time)s after it ended, as the schedule of retries says.") % {
            "time": in_time(following.started_at - _ended_at(attempt))
        }
    if attempt.result == DeliveryAttempt.Result.SUCCEEDED:
        return gettext("Nothing more is sent.")
    if delivery.state == Delivery.State.GIVEN_UP:
        return gettext("It was attempt %(number)d of %(limit)d, the last, so the delivery was given up.") % {
            "number": attempt.number,
            "limit": delivery.max_attempts,
        }
    if delivery.state == Delivery.State.CANCELLED:
        return gettext("It was not tried again: %(reason)s") % {"reason": why_cancelled(delivery)}
    if delivery.due_at is None:
        return waiting_for(delivery)
    scheduled = gettext("The schedule of retries says to try again %(time)s after attempt %(number)d.") % {
        "time": in_time(delivery.due_at - _ended_at(attempt)),
        "number": attempt.number,
    }
    return format_html("{} {}", scheduled, waiting_for(delivery))


def policy_in_words(delivery: Delivery) -> str:
    """Return the name of a delivery's retry policy with the delays, which were fixed when it was queued."""
    policy = delivery.policy
    fixed = policy.delays[: delivery.max_attempts - 1]
    if not fixed:
        return gettext("%(name)s: no retries") % {"name": policy.name}
    delays = ", ".join([*map(in_time, fixed[:MAX_DELAYS]), *(["…"] if len(fixed) > MAX_DELAYS else [])])
    text = gettext("%(name)s: retries after %(delays)s")
    if policy.jitter:
        text = gettext("%(name)s: retries after %(delays)s, and up to %(jitter)d %% later")
    values = {"name": policy.name, "delays": delays, "jitter": round(100 * policy.jitter)}
    return text % values


def waiting_for(delivery: Delivery) -> str:
    """Return the reason why a pending delivery is not sent now, or since when it is due."""
    now = timezone.now()
    (hold,) = holds_of([delivery], now=now)
    if hold is None:
        return format_html(gettext("Due since {time}; the next free worker sends it."), time=_shown(delivery.due_at))
    if hold.reason == HoldReason.NOT_DUE and hold.until is not None:
        text = gettext("Next attempt in {span}, at {time}.")
        return format_html(text, span=in_time(hold.until - now), time=moment(hold.until))
    return format_html(
        _sentences().get(hold.reason, ""),
        since=_shown(hold.since),
        until=_shown(hold.until),
        in_flight=hold.in_flight,
        limit=hold.max_in_flight,
    )


def _sentences() -> dict[HoldReason, str]:
    return {
        HoldReason.IN_FLIGHT: gettext("In flight. If there is no result by {until}, the attempt counts as failed."),
        HoldReason.LOST: gettext("The worker was lost at {since}. The next free worker records the attempt as failed."),
        HoldReason.STOPPED: gettext("The webhook is disabled or deleted, so this delivery will be cancelled."),
        HoldReason.PAUSED: gettext("Paused since {since}."),
        HoldReason.UNVERIFIED: gettext("Waiting for verification of the webhook."),
        HoldReason.EXPIRED: gettext("Expired at {since}, so this delivery will be cancelled."),
        HoldReason.ADDRESS_BUSY: gettext(
            "Many tests and verifications go to the receiver's address. This one is sent at {until}."
        ),
        HoldReason.UNSIGNED: gettext(
            "A worker cannot read the webhook's secret, and leaves it to other workers until {until}. Compare "
            "WEBHOOKS_ENCRYPTION_KEYS and SECRET_KEY of all workers, or rotate the secret."
        ),
        HoldReason.RATE_LIMITED: gettext("Rate limit reached; next slot at {until}."),
        HoldReason.WITHHELD: gettext("Rate limit nearly reached; events are sent before retry notices."),
        HoldReason.CONCURRENCY: gettext("{in_flight} of {limit} requests in flight."),
        HoldReason.SLOW: gettext("The receiver is slow: it shares a limited number of requests with other slow ones."),
    }


def why_cancelled(delivery: Delivery) -> str:
    reasons = {
        "expired": gettext("It was not sent before it expired."),
        "superseded": gettext("A later verification took its place."),
        "webhook_failed": gettext("The webhook failed its verification."),
        "webhook_disabled": gettext("The webhook was disabled."),
        "webhook_deleted": gettext("The webhook was deleted."),
        "replay_cancelled": gettext("The replay that queued it was cancelled."),
    }
    return reasons.get(delivery.state_reason) or translated(delivery.state_reason)


def _ended_at(attempt: DeliveryAttempt) -> datetime:
    return attempt.started_at + timedelta(milliseconds=attempt.duration_ms or 0)


def _shown(at: datetime | None) -> str:
    return moment(at) if at else ""
