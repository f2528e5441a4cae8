"""Why a delivery stands where it stands: one sentence about each outcome, and one about what follows from it."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.utils import timezone
from django.utils.html import format_html
from django.utils.translation import gettext

from ..models import Delivery, DeliveryAttempt, Webhook
from .display import in_time, moment


def why(attempt: DeliveryAttempt) -> str:
    """Return why an attempt had the result that it had."""
    if attempt.message:
        return attempt.message
    if attempt.result != DeliveryAttempt.Result.SUCCEEDED:
        return str(attempt.get_result_display())
    if attempt.challenge:
        return gettext("Answered with status 200 and the challenge that was sent.")
    return gettext("Answered with status 200, which confirms receipt.")


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
    if delivery.next_attempt_at is None or delivery.claimed_at is not None:
        return waiting_for(delivery)
    span = in_time(delivery.next_attempt_at - _ended_at(attempt))
    scheduled = gettext("The schedule of retries says to try again %(time)s after attempt %(number)d.") % {
        "time": span,
        "number": attempt.number,
    }
    return format_html("{} {}", scheduled, waiting_for(delivery))


def waiting_for(delivery: Delivery) -> str:
    """Return what a delivery that is pending waits for."""
    at, webhook = delivery.next_attempt_at, delivery.webhook
    if delivery.state != Delivery.State.PENDING or at is None:
        return ""
    if delivery.claimed_at is not None:
        text = gettext("It is being sent. If nothing is heard of that attempt by {time}, it counts as failed.")
        return format_html(text, time=moment(at))
    if webhook.paused_at is not None:
        return gettext("It is held while the webhook is paused.")
    if delivery.kind == Delivery.Kind.EVENT and webhook.status == Webhook.Status.PENDING:
        return gettext("It is held until the webhook is verified.")
    if (wait := at - timezone.now()) > timedelta(0):
        return format_html(gettext("The next try is in {span}, at {time}."), span=in_time(wait), time=moment(at))
    text = gettext("It is due since {time}, and is sent as soon as a worker is free and the webhook's limits allow.")
    return format_html(text, time=moment(at))


def why_cancelled(delivery: Delivery) -> str:
    reasons = {
        "expired": gettext("It was not sent before it expired."),
        "superseded": gettext("A later verification took its place."),
        "webhook_failed": gettext("The webhook failed its verification."),
        "webhook_disabled": gettext("The webhook was disabled."),
        "webhook_deleted": gettext("The webhook was deleted."),
        "replay_cancelled": gettext("The replay that queued it was cancelled."),
    }
    return reasons.get(delivery.state_reason, delivery.state_reason)


def _ended_at(attempt: DeliveryAttempt) -> datetime:
    return attempt.started_at + timedelta(milliseconds=attempt.duration_ms or 0)
