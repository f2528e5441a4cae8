"""Explanations of a delivery's state: one sentence for each result and one for its consequence."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext

from ..models import Delivery, DeliveryAttempt, Webhook
from ..models.disclosure import UNREACHABLE
from ..models.fields import translated
from ..models.hold import Hold, HoldReason, holds_of
from .display import DeliveryUrl, in_time, link_to_delivery, moment
from .form_fields import label_of

MAX_DELAYS = 12


def why(attempt: DeliveryAttempt) -> str:
    """Return the reason for an attempt's result."""
    if attempt.message:
        return translated(attempt.message)
    if attempt.result != DeliveryAttempt.Result.SUCCEEDED:
        is_status = attempt.result == DeliveryAttempt.Result.HTTP_STATUS and attempt.response_status
        return _answered(attempt) if is_status else str(attempt.get_result_display())
    if attempt.challenge:
        return gettext("Answered with status 200 and the correct challenge.")
    return gettext("Answered with status %(status)s, which confirms receipt.") % {"status": attempt.response_status}


def _answered(attempt: DeliveryAttempt) -> str:
    return gettext("Answered with status %(status)s.") % {"status": attempt.response_status}


def what_followed(
    attempt: DeliveryAttempt, following: DeliveryAttempt | None, delivery: Delivery, *, url: DeliveryUrl
) -> str:
    """Return a sentence about the next step after an attempt, its time and its reason."""
    is_hidden = attempt.result == UNREACHABLE
    if following is not None and (is_hidden or following.result == UNREACHABLE):
        return ""
    if following is not None:
        return gettext("The next attempt followed %(time)s later, according to the retry schedule.") % {
            "time": in_time(following.started_at - ended_at(attempt))
        }
    if attempt.result == DeliveryAttempt.Result.SUCCEEDED:
        return gettext("No further attempt.")
    if delivery.state == Delivery.State.GIVEN_UP:
        return gettext("This was the last of %(limit)d attempts, so the delivery was given up.") % {
            "limit": delivery.max_attempts,
        }
    if delivery.state == Delivery.State.CANCELLED:
        return gettext("No further attempt: %(reason)s") % {"reason": why_cancelled(delivery)}
    if delivery.due_at is None or is_hidden:
        return waiting_for(delivery, url=url)
    scheduled = gettext(
        "According to the retry schedule, the next attempt follows %(time)s after attempt %(number)d."
    ) % {
        "time": in_time(delivery.due_at - ended_at(attempt)),
        "number": attempt.number,
    }
    return format_html("{} {}", scheduled, waiting_for(delivery, url=url))


def policy_in_words(delivery: Delivery) -> str:
    """Return the name of a delivery's retry policy with the delays, which were fixed when it was queued."""
    policy = delivery.policy
    fixed = policy.delays[: delivery.max_attempts - 1]
    if not fixed:
        return gettext("%(name)s: no retries") % {"name": label_of(policy)}
    delays = ", ".join([*map(in_time, fixed[:MAX_DELAYS]), *(["…"] if len(fixed) > MAX_DELAYS else [])])
    text = gettext("%(name)s: retries after %(delays)s")
    if policy.jitter:
        text = gettext("%(name)s: retries after %(delays)s, and up to %(jitter)d %% later")
    values = {"name": label_of(policy), "delays": delays, "jitter": round(100 * policy.jitter)}
    return text % values


def waiting_for(delivery: Delivery, *, url: DeliveryUrl) -> str:
    """Return the reason why a pending delivery is not sent now, or the time since which it is due.

    ``url`` returns the URL of an earlier delivery. Return "" if the user may not see when the last
    attempt ended.
    """
    return hold_in_words(holds_of([delivery], now=timezone.now())[0], delivery, url=url)


def hold_in_words(hold: Hold | None, delivery: Delivery, *, url: DeliveryUrl) -> SafeString | str:
    """Return the reason why a pending delivery with this hold is not sent now, as ``waiting_for``."""
    if hold is None:
        return format_html(gettext("Due since {time}; the next free worker sends it."), time=_shown(delivery.due_at))
    if hold.reason == HoldReason.NOT_DUE and hold.until is not None:
        text = gettext("Next attempt in {span}, at {time}.")
        return format_html(text, span=in_time(hold.until - timezone.now()), time=moment(hold.until))
    if hold.reason == HoldReason.ORDERED and hold.blocker:
        text = gettext("Waiting for an earlier delivery, {delivery}, because the webhook has an order.")
        waits = format_html(text, delivery=link_to_delivery(hold.blocker, url))
        return format_html("{} {}", waits, _of_front(hold.blocker, delivery, url=url))
    for_owner = _sentences_for_owner() if delivery.is_for_owner else {}
    return format_html(
        {**_sentences(), **for_owner}.get(hold.reason, ""),
        since=_shown(hold.since),
        until=_shown(hold.until),
        in_flight=hold.in_flight,
        limit=hold.max_in_flight,
    )


def _of_front(pk: str, delivery: Delivery, *, url: DeliveryUrl) -> SafeString | str:
    """Return how far the delivery is for which another one of the same webhook waits."""
    rows = Delivery.objects.using(delivery.alias).filter(pk=pk, webhook=delivery.webhook_id).with_related()
    front = (rows.for_owner() if delivery.is_for_owner else rows).first()
    return how_far(front, url=url) if front else ""


def how_far(front: Delivery, *, url: DeliveryUrl) -> SafeString:
    """Return the last answer to a delivery for which others wait, and its next attempt."""
    if front.state != Delivery.State.PENDING:  # it ended a moment ago
        return SafeString("")
    attempts, waits = front.shown_attempts(), waiting_for(front, url=url)
    if not attempts:
        return format_html("{}", waits)
    text = gettext("Its attempt {number} of {limit} failed: {why}")
    last = attempts[-1]
    return format_html(text + " {waits}", number=last.number, limit=front.max_attempts, why=why(last), waits=waits)


def _sentences() -> dict[HoldReason, str]:
    return {
        HoldReason.IN_FLIGHT: gettext("In flight. If there is no result by {until}, the attempt counts as failed."),
        HoldReason.LOST: gettext("The worker was lost at {since}. The next free worker records the attempt as failed."),
        HoldReason.STOPPED: gettext("The webhook is disabled or deleted, so this delivery will be cancelled."),
        HoldReason.PAUSED: gettext("Paused since {since}."),
        HoldReason.UNVERIFIED: gettext("Waiting for verification of the webhook."),
        HoldReason.FILTER_PENDING: gettext(
            "The filter of the webhook is not evaluated yet: it takes many steps for this event, or it cannot be read. "
            "A worker evaluates it. Change the filter if this does not end."
        ),
        HoldReason.EXPIRED: gettext("Expired at {since}, so this delivery will be cancelled."),
        HoldReason.ADDRESS_BUSY: gettext(
            "Many tests and verifications go to the receiver's address. This one is sent at {until}."
        ),
        HoldReason.UNSIGNED: gettext(
            "A worker cannot sign for the webhook and leaves the delivery to other workers until {until}. Compare "
            "SECRET_KEY, WEBHOOKS_ENCRYPTION_KEYS and WEBHOOKS_SIGNATURES on all workers, or rotate the secret."
        ),
        HoldReason.ORDERED: gettext("Waiting for its turn, because the webhook has an order."),
        HoldReason.RATE_LIMITED: gettext("Rate limit reached; next slot at {until}."),
        HoldReason.WITHHELD: gettext("Rate limit nearly reached; events are sent before retry notices."),
        HoldReason.CONCURRENCY: gettext("{in_flight} of {limit} requests in flight."),
        HoldReason.SLOW: gettext(
            "The receiver is slow and shares a limited number of requests with other slow receivers."
        ),
    }


def _sentences_for_owner() -> dict[HoldReason, str]:
    """Return the sentences for owners, who know neither the workers nor their settings."""
    return {
        HoldReason.LOST: gettext("The attempt was interrupted at {since}. It counts as failed."),
        HoldReason.UNSIGNED: gettext(
            "Requests to the webhook cannot be signed at the moment. The next attempt is at {until}. If this does not "
            "end, rotate the secret."
        ),
    }


def why_cancelled(delivery: Delivery) -> str:
    reasons = {
        "expired": gettext("The delivery expired before it was sent."),
        "superseded": gettext("A later verification replaced it."),
        "url_withdrawn": gettext("The new URL was withdrawn."),
        "webhook_failed": gettext("The webhook failed its verification."),
        "webhook_disabled": gettext("The webhook was disabled."),
        "webhook_deleted": gettext("The webhook was deleted."),
        "filtered": gettext("The filter does not match the data of the event."),
        "replay_cancelled": gettext("Its replay was cancelled."),
        "event_deleted": gettext("The content of its event is missing."),
        "unrecordable": gettext("Its attempts could not be recorded. The cause is in the log of the workers."),
    }
    if delivery.is_for_owner:
        reasons["unrecordable"] = gettext("Its attempts could not be recorded.")
    return reasons.get(delivery.state_reason) or translated(delivery.state_reason)


def state_of_handshake(delivery: Delivery, last: str) -> str:
    """Return the state of a verification. ``last`` is the reason for the result of its last attempt."""
    if delivery.state == Delivery.State.SUCCEEDED:
        return gettext("Verified: the URL returned the challenge. Events are sent.")
    if delivery.state == Delivery.State.GIVEN_UP and delivery.webhook.status == Webhook.Status.ACTIVE:
        text = gettext(
            "Not verified: %(reason)s The webhook keeps its URL. Once the receiver works, enter the URL again."
        )
        return text % {"reason": last}
    if delivery.state == Delivery.State.GIVEN_UP:
        return gettext("Not verified: %(reason)s Once the receiver works, verify again.") % {"reason": last}
    if delivery.state == Delivery.State.CANCELLED:
        return why_cancelled(delivery)
    if delivery.webhook.paused_at is not None and not delivery.webhook.is_changing_url:
        return gettext("Not verified yet.")
    if delivery.attempt_count:
        return gettext("Not verified yet, after %(number)d of %(limit)d attempts. %(reason)s") % {
            "number": delivery.attempt_count,
            "limit": delivery.max_attempts,
            "reason": last,
        }
    return gettext("Verification in progress: the URL must return the challenge unchanged.")


def ended_at(attempt: DeliveryAttempt) -> datetime:
    return attempt.started_at + timedelta(milliseconds=attempt.duration_ms or 0)


def _shown(at: datetime | None) -> str:
    return moment(at) if at else ""
