"""Output of a delivery's attempts until the delivery is finished."""

from __future__ import annotations

import time
from collections.abc import Callable

from django.core.management.base import CommandError
from django.utils import timezone

from ..conf import settings
from ..models import Delivery, DeliveryAttempt
from ..models.hold import HoldReason, holds_of

LOOK_EVERY_SECONDS = 0.1
WORKER_MISSED_AFTER_SECONDS = 10.0
SPARE_SECONDS = 30.0

NO_WORKER = "No worker has claimed it yet. Start one: `celery -A your_project worker`, or `manage.py deliver_webhooks`."


def follow(delivery: Delivery, write: Callable[[str], None], *, timeout_seconds: float | None = None) -> Delivery:
    """Print each attempt as it is logged, and return the delivery once it is finished.

    Raises CommandError if it is not finished within the maximum duration of all its attempts.
    """
    ends_at = time.monotonic() + (timeout_seconds or _longest_seconds(delivery))
    warn_at = time.monotonic() + WORKER_MISSED_AFTER_SECONDS
    said = 0
    while True:
        delivery.refresh_from_db()
        for attempt in delivery.attempts.filter(number__gt=said).order_by("number"):
            write(_line(delivery, attempt))
            said = attempt.number
        if delivery.state != Delivery.State.PENDING:
            return delivery
        now = time.monotonic()
        if now > ends_at:
            raise CommandError(f"Delivery {delivery.id} is still pending. {_status(delivery)}")
        if now > warn_at and not delivery.attempt_count:
            write(_hold(delivery) or NO_WORKER)
            warn_at = ends_at
        time.sleep(LOOK_EVERY_SECONDS)


def _longest_seconds(delivery: Delivery) -> float:
    return float(delivery.max_attempts * settings.LEASE_SECONDS + delivery.policy.span.total_seconds() + SPARE_SECONDS)


def _status(delivery: Delivery) -> str:
    attempts = f"Its attempts so far: {delivery.attempt_count}." if delivery.attempt_count else ""
    return " ".join(filter(None, (attempts, _hold(delivery)))) or NO_WORKER


def _hold(delivery: Delivery) -> str:
    """Return the reason why the delivery is not sent now, or "" if it is due or finished."""
    (loaded,) = Delivery.objects.select_related("event", "webhook__lane", "queue_entry").filter(pk=delivery.pk)
    (hold,) = holds_of([loaded], now=timezone.now())
    return "" if hold is None or hold.reason == HoldReason.FINAL else f"It is held: {hold.reason.label}."


def _line(delivery: Delivery, attempt: DeliveryAttempt) -> str:
    took = "" if attempt.duration_ms is None else f" in {attempt.duration_ms / 1000:.3f} s"
    status = "" if attempt.response_status is None else f" (status {attempt.response_status})"
    reason = f": {attempt.message}" if attempt.message else ""
    return f"attempt {attempt.number} of {delivery.max_attempts}: {attempt.get_result_display()}{status}{took}{reason}"
